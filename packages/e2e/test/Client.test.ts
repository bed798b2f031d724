import { EndpointId, Reference } from "@card-rewards/domain/Ids"
import { until } from "@card-rewards/testing/Polling"
import { freePort } from "@card-rewards/testing/Processes"
import { TestService } from "@card-rewards/testing/TestService"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Schedule } from "effect"
import { type ChildProcess, execFile, spawn } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join, resolve } from "node:path"
import stripe from "stripe"

const root = resolve(import.meta.dirname, "../../..")
const readme = fs.readFileSync(join(root, "packages/client/README.md"), "utf8")

/** The README's programs by file name, each with its expected output. */
const programs = new Map(
  [...readme.matchAll(/```ts\n\/\/ (\S+)\.ts\n([^]*?)```[^]*?```text\n([^]*?)```/g)]
    .map(([, name = "", code = "", output = ""]) => [name, { code, output }])
)

/** The maximum size of the tarball, which integrators download beside Effect. */
const maxPackedBytes = 100_000

/** The machine's own Node where it is not the project's: integrators may have an older one. */
const node = (process.env["PATH"] ?? "").split(delimiter)
  .filter((folder) => !folder.includes("node_modules"))
  .map((folder) => join(folder, "node"))
  .find((file) => fs.existsSync(file)) ?? process.execPath

/** An empty project with the packed client, Effect and the types of Node; the README's programs compiled in it. */
class Project extends Context.Service<Project, { readonly folder: string; readonly tarball: string }>()(
  "@card-rewards/e2e/test/Project"
) {
  static readonly layer = Layer.effect(
    Project,
    Effect.gen(function*() {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "card-rewards-integrator-"))),
        (path) => Effect.sync(() => fs.rmSync(path, { recursive: true, force: true }))
      )
      const tarball = (yield* run(folder, process.execPath, join(root, "scripts/packClient.ts"), folder)).trim()
      fs.writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }))
      // the only dependency of the tarball is its peer, which is copied instead of downloaded
      yield* run(folder, "npm", "install", "--offline", "--legacy-peer-deps", "--no-audit", "--silent", tarball)
      fs.mkdirSync(join(folder, "node_modules/@types"))
      for (const name of ["effect", "@types/node"]) {
        fs.symlinkSync(fs.realpathSync(join(root, "node_modules", name)), join(folder, "node_modules", name))
      }
      for (const [name, { code }] of programs) fs.writeFileSync(join(folder, `${name}.ts`), code)
      fs.writeFileSync(join(folder, "refused.ts"), refused)
      return Project.of({ folder, tarball })
    })
  )
}

/** Returns the output of a command. Fails with all of its output where the command fails. */
const run = (cwd: string, command: string, ...args: ReadonlyArray<string>) =>
  Effect.callback<string>((resume) => {
    execFile(command, args, { cwd }, (error, stdout, stderr) =>
      resume(error === null ? Effect.succeed(stdout) : Effect.die(new Error(`${error.message}\n${stdout}${stderr}`))))
  })

/** Errors that the compiler must find; without a declaration in the package it would not. */
const refused = `
import { CardRewards, UserId } from "@card-rewards/client"
import { connect, NotFound } from "@card-rewards/client/promise"
import { Effect } from "effect"
const client = connect({ baseUrl: "", apiKey: "" })
// @ts-expect-error: the parameter has another name
void client.users.balance({ params: { user: "ann" } })
// @ts-expect-error: a clearing has more fields
void client.spendEvents.submit({ payload: { kind: "clearing" } })
// @ts-expect-error: production has no sandbox
void client.sandbox
// @ts-expect-error: amounts are bigints
void client.users.balance({ params: { userId: "ann" } }).then(({ balances: [usdc] }): number => usdc?.paid ?? 0)
const call = Effect.flatMap(CardRewards, (api) => api.users.get({ params: { userId: UserId.make("ann") } }))
// @ts-expect-error: an error of another operation is none of this one
void call.pipe(Effect.catchTag("LastActiveKey", () => Effect.void))
// @ts-expect-error: a resource is one of few
export const resource = (error: NotFound): "user" => error.resource
`

const compile = Effect.fnUntraced(function*(compiler: string, ...args: ReadonlyArray<string>) {
  const { folder } = yield* Project
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"]
  const options = [...strict, "--target", "es2024", "--module", "nodenext", "--types", "node"]
  const files = [...programs.keys(), "refused"].map((name) => `${name}.ts`)
  yield* run(folder, process.execPath, join(root, compiler), ...options, ...args, ...files)
})

const services = Layer.merge(Project.layer, TestService.layer({ sealMillis: 100 }))

const options = { excludeTestServices: true } as const

layer(services, options)("the packed client in an empty project", (it) => {
  it.effect("is small and has no dependency but Effect", () =>
    Effect.gen(function*() {
      const { folder, tarball } = yield* Project
      const installed = join(folder, "node_modules/@card-rewards/client")
      const manifest = JSON.parse(fs.readFileSync(join(installed, "package.json"), "utf8"))
      assert.isBelow(fs.statSync(tarball).size, maxPackedBytes)
      assert.deepStrictEqual([manifest.dependencies, Object.keys(manifest.peerDependencies)], [undefined, ["effect"]])
    }))

  it.effect("compiles the README's programs with TypeScript 7, and its declarations are valid", () =>
    // one thread, because each of several would check the same types of Effect again
    compile("node_modules/typescript/bin/tsc", "--outDir", "out", "--singleThreaded"))

  it.effect("compiles them with TypeScript 5", () =>
    compile("node_modules/typescript-5/bin/tsc", "--noEmit", "--skipLibCheck"))

  it.effect("runs them against the service, with the output that the README shows", () =>
    Effect.gen(function*() {
      const { folder } = yield* Project
      const { api, apiKey, baseUrl, integratorId } = yield* TestService
      const env = { BASE_URL: baseUrl, API_KEY: Redacted.value(apiKey), INTEGRATOR_ID: integratorId }
      const program = (name: string) => programs.get(name) ?? assert.fail(`the README has no ${name}.ts`)
      const start = (name: string, more: Readonly<Record<string, string>> = {}, [command, file] = compiled(name)) => {
        const child = spawn(command, [join(folder, file)], { env: { ...env, ...more } })
        const started = { child, output: "" }
        for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => started.output += chunk)
        return started
      }

      const names = ["first-reward", "history", "follow", "books", "verify", "errors", "effect"]
      const runs = names.map((name) => ({ name, as: compiled(name) }))
      for (const { as, name } of [...runs, { name: "errors", as: asItIs("errors") }]) {
        if (name === "verify") yield* Effect.retry(Effect.asVoid(api.journal.latestSeal()), patiently)
        const started = start(name, {}, as)
        yield* closed(started.child)
        assert.strictEqual(started.output, program(name).output)
      }

      const port = yield* freePort
      const { secret = "" } = yield* api.webhookEndpoints.create({
        payload: { id: EndpointId.make("main"), url: `http://127.0.0.1:${port}/` }
      })
      const receiver = yield* Effect.acquireRelease(
        Effect.sync(() => start("webhooks", { PORT: `${port}`, WEBHOOK_SECRET: secret })),
        ({ child }) => Effect.sync(() => child.kill())
      )
      yield* Effect.retry(Effect.tryPromise(() => fetch(`http://127.0.0.1:${port}/`, { method: "POST" })), patiently)
      yield* api.sandbox.deposit({
        payload: { reference: Reference.make("d2"), amount: { asset: "USDC", amount: 5_000_000n } }
      })
      yield* Effect.sync(() => receiver.output).pipe(
        Effect.filterOrFail((output) => output !== ""),
        Effect.retry(patiently)
      )
      assert.strictEqual(receiver.output, program("webhooks").output)

      const replay = start("replay")
      yield* closed(replay.child)
      assert.strictEqual(replay.output, program("replay").output)
      // both deposits, also the one from before the endpoint; the vault's events have no order among themselves
      const replayed = Effect.sync(() => receiver.output.slice(program("webhooks").output.length))
      const repeated = yield* until("both deposits", replayed, (output) => output.split("\n").length === 3)
      assert.sameMembers(repeated.match(/^d\d/gm) ?? [], ["d1", "d2"])
    }))

  it.effect("posts a signed event to localhost within 10 s of npx on the tarball", () =>
    Effect.gen(function*() {
      const { folder, tarball } = yield* Project
      const { api, apiKey, baseUrl } = yield* TestService
      const receiver = yield* WebhookReceiver
      const env = {
        PATH: [dirname(node), process.env["PATH"] ?? ""].join(delimiter),
        npm_config_cache: join(folder, "npm-cache"),
        CARD_REWARDS_BASE_URL: baseUrl,
        CARD_REWARDS_API_KEY: Redacted.value(apiKey)
      }
      // Effect is the tarball's peer, which npm would download
      const effect = fs.realpathSync(join(root, "node_modules/effect"))
      const packages = ["--offline", "--yes", "--package", tarball, "--package", effect]
      const npx = (command: string) => {
        const [, ...args] = command.replace("http://localhost:8080/webhooks", receiver.url).split(" ")
        const child = spawn("npx", [...packages, ...args], { cwd: folder, env, detached: true })
        const started = { child, output: "" }
        child.stdout.on("data", (chunk) => started.output += chunk)
        // npm's own warnings
        child.stderr.resume()
        return started
      }
      const [listen = "", trigger = ""] = readme.match(/^npx card-rewards (?:listen|trigger) .*$/gm) ?? []
      const startedAt = performance.now()
      const listening = yield* Effect.acquireRelease(
        Effect.sync(() => npx(listen)),
        ({ child }) => Effect.sync(() => isRunning(child) && process.kill(-(child.pid ?? 0), "SIGKILL"))
      )
      const printed = yield* until("listen", Effect.sync(() => listening.output), (text) => /^Forw/m.test(text), 20)
      yield* api.sandbox.deposit({
        payload: { reference: Reference.make("npx"), amount: { asset: "USDC", amount: 5_000_000n } }
      })
      yield* until("a webhook", Effect.sync(() => receiver.received), ({ length }) => length > 0, 20)
      assert.isBelow(performance.now() - startedAt, 10_000)
      const [{ body, headers } = assert.fail()] = receiver.received
      const secret = /service_whsec_[0-9a-f]{64}/.exec(printed)?.[0] ?? ""
      stripe.webhooks.constructEvent(body, headers["x-service-signature"] ?? "", secret)

      const story = npx(trigger)
      yield* closed(story.child)
      assert.include(readme, story.output)
      yield* until("both", Effect.sync(() => listening.output), (text) => / 200 in [^]* 200 in /.test(text), 20)
      process.kill(-(listening.child.pid ?? 0), "SIGINT")
      yield* closed(listening.child)
      assert.match(listening.output, /^2 delivered, 0 given up\. To go on from here: --after \d+$/m)
    }))
})

const isRunning = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null

const closed = (child: ChildProcess) =>
  Effect.callback<void>((resume) => void child.once("close", () => resume(Effect.void)))

type Run = readonly [command: string, file: string]
const compiled = (name: string): Run => [node, `out/${name}.js`]
const asItIs = (name: string): Run => [process.execPath, `${name}.ts`]

const patiently = Schedule.spaced("20 millis").pipe(Schedule.upTo({ duration: "60 seconds" }))
