import * as LoopbackServer from "@card-rewards/testing/LoopbackServer"
import { folder, freePort, root } from "@card-rewards/testing/Processes"
import * as TestProcess from "@card-rewards/testing/TestProcess"
import { read } from "@card-rewards/testing/WebhookReceiver"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { join } from "node:path"

const script = join(root, "scripts/auditDependencies.ts")

it("api and worker have the packages that docs/operations.md lists, and no others", () => {
  const operations = readFileSync(join(root, "docs/operations.md"), "utf8")
  const section = operations.split(/^## /m).find((part) => part.startsWith("Dependencies\n"))
  const listed = [...(section ?? "").matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name)
  const args = [script, "--list", "packages/api", "packages/worker"]
  const lines = execFileSync(process.execPath, args, { cwd: root, encoding: "utf8" }).trim().split("\n")
  const brought = new Set(lines.map((line) => line.slice(0, line.lastIndexOf("@"))))
  assert.isAbove(brought.size, 5)
  assert.deepStrictEqual(listed.toSorted(), [...brought].toSorted())
})

const lockfile = `
importers:
  packages/admin: {}
  packages/api:
    dependencies:
      '@card-rewards/core': { specifier: 'workspace:*', version: 'link:../core' }
      effect: { specifier: 'catalog:', version: 4.1.0 }
    devDependencies:
      vitest: { specifier: 'catalog:', version: 5.1.1 }
  packages/bench:
    dependencies:
      fastify: { specifier: 'catalog:', version: 5.12.8 }
  packages/client: {}
  packages/console:
    dependencies:
      charts: { specifier: 'npm:@visx/shape@4.0.0', version: '@visx/shape@4.0.0(react@19.3.1)' }
      d3-array: { specifier: 3.2.5, version: 3.2.5 }
  packages/core:
    dependencies:
      '@effect/platform-node': { specifier: 'catalog:', version: '4.1.0(effect@4.1.0)' }
  packages/worker: {}
snapshots:
  '@effect/platform-node@4.1.0(effect@4.1.0)':
    dependencies: { effect: 4.1.0, undici: 8.12.4 }
    optionalDependencies: { redis: 6.3.1 }
  '@visx/shape@4.0.0(react@19.3.1)':
    dependencies: { d3-array: 3.2.1 }
  d3-array@3.2.1: {}
  d3-array@3.2.5: {}
  effect@4.1.0: {}
  fastify@5.12.8: {}
  redis@6.3.1: {}
  undici@8.12.4: {}
  vitest@5.1.1: {}
`

const advisory = (id: string, more: Readonly<Record<string, unknown>> = {}) => ({
  id: 1107001,
  url: `https://github.com/advisories/${id}`,
  title: "It breaks",
  severity: "high",
  vulnerable_versions: "<9",
  cwe: ["CWE-1"],
  ...more
})

/** The answer of the registry to every request. */
const known = { "node-serialize": [advisory("GHSA-q4v7-4rhw-9hqm", { severity: "critical" })] }

/** How a registry handles the request. */
type Registry = (response: ServerResponse, question: unknown, request: IncomingMessage) => void

const says = (status: number, body: unknown): Registry => (response) =>
  void response.writeHead(status, { "content-type": "application/json" })
    .end(typeof body === "string" ? body : JSON.stringify(body))

/** Listens until the scope closes. Returns the registry's URL. */
const listen = (registry: Registry) =>
  LoopbackServer.listen(createServer((request, response) =>
    void read(request).then(({ body }) => registry(response, JSON.parse(body), request), () => response.destroy())
  )).pipe(Effect.map(({ port }) => `http://127.0.0.1:${port}/npm/`))

/** The audit of `lockfile` with this registry. */
const audit = Effect.fnUntraced(function*(
  registry: Registry | string,
  options: { readonly args?: ReadonlyArray<string>; readonly workspace?: string } = {}
) {
  const cwd = yield* folder
  writeFileSync(join(cwd, "pnpm-lock.yaml"), lockfile)
  writeFileSync(join(cwd, "pnpm-workspace.yaml"), options.workspace ?? "packages: []\n")
  const url = typeof registry === "string" ? registry : yield* listen(registry)
  const env = { PATH: process.env["PATH"] ?? "", npm_config_registry: url }
  const running = yield* TestProcess.start([script, ...(options.args ?? [])], { cwd, env })
  return { code: yield* running.exit, output: running.output() }
}, Effect.scoped)

it.live("an audit queries the registry once, for exactly the packages that run in production", () =>
  Effect.gen(function*() {
    const requests: Array<unknown> = []
    const result = yield* audit((response, question, { headers, method, url }) => {
      requests.push([method, url, headers["content-type"], question])
      says(200, known)(response, question, response.req)
    })
    assert.deepStrictEqual(result, { code: 0, output: "7 packages, none with a known advisory\n" })
    assert.deepStrictEqual(requests, [["POST", "/npm/-/npm/v1/security/advisories/bulk", "application/json", {
      "@effect/platform-node": ["4.1.0"],
      "@visx/shape": ["4.0.0"],
      "d3-array": ["3.2.1", "3.2.5"],
      effect: ["4.1.0"],
      redis: ["6.3.1"],
      undici: ["8.12.4"],
      "node-serialize": ["0.0.4"]
    }]])
  }))

it.live("an audit fails on a finding, unless pnpm-workspace.yaml accepts it", () =>
  Effect.gen(function*() {
    const findings = { undici: [advisory("GHSA-aaaa-bbbb-cccc")], "d3-array": [advisory("GHSA-d3")] }
    const registry = says(200, { ...known, ...findings })
    const line = (what: string, id: string) =>
      `${what}: high: It breaks; affects <9; https://github.com/advisories/${id}`
    const [undici, d3] = [line("undici@8.12.4", "GHSA-aaaa-bbbb-cccc"), line("d3-array@3.2.1, 3.2.5", "GHSA-d3")]
    const workspace = (ids: string) => `packages: []\nauditConfig: { ignoreGhsas: [${ids}] }\n`
    const results = yield* Effect.all([
      audit(registry),
      audit(registry, { workspace: workspace("GHSA-d3") }),
      audit(registry, { workspace: workspace("GHSA-d3, GHSA-aaaa-bbbb-cccc"), args: ["--required"] })
    ], { concurrency: 2 })
    const lines = (output: string) => output.trim().split("\n").toSorted()
    assert.deepStrictEqual(results.map(({ code, output }) => [code, lines(output)]), [
      [1, [d3, undici]],
      [1, [`${d3} (accepted)`, undici]],
      [0, [`${d3} (accepted)`, `${undici} (accepted)`]]
    ])
  }))

it.live("an audit without an answer of the registry ends within 10 s, and fails only where it is required", () =>
  Effect.gen(function*() {
    const waits: Array<number> = []
    const waitsFor = (response: ServerResponse) => {
      const cameAt = performance.now()
      response.once("close", () => waits.push(performance.now() - cameAt))
    }
    const half: Registry = (response) => {
      waitsFor(response)
      response.writeHead(200).write("{")
    }
    const other = "the registry answers with something else than advisories"
    const cases: ReadonlyArray<readonly [Registry | string, string]> = [
      [half, "no answer within 10 s"],
      [waitsFor, "no answer within 10 s"],
      [says(404, known), "the registry answers 404"],
      [says(405, ""), "the registry answers 405"],
      [says(501, ""), "the registry answers 501"],
      [says(200, "<html>"), other],
      [says(200, []), other],
      [says(200, { ...known, undici: [{ id: 1 }] }), other],
      [says(200, {}), "the registry knows no advisories at all"],
      [`http://127.0.0.1:${yield* freePort}/`, "the registry cannot be reached"]
    ]
    const results = yield* Effect.forEach(
      cases,
      ([registry], index) => audit(registry, { args: index % 2 === 0 ? [] : ["--required"] }),
      { concurrency: 4 }
    )
    assert.deepStrictEqual(
      results,
      cases.map(([, reason], index) => ({ code: index % 2 === 0 ? 0 : 2, output: `not audited: ${reason}\n` }))
    )
    // from the arrival of the request, so that a slow start of the audit does not count
    assert.strictEqual(waits.length, 2)
    for (const millis of waits) assert.isTrue(millis > 5_000 && millis < 15_000, `${millis} ms`)
  }))
