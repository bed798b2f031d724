/**
 * `npm run audit:dependencies`: asks the configured npm registry for known security advisories about all packages that
 * api, worker, admin, client and console install in production, at exactly the versions of pnpm-lock.yaml.
 *
 * Prints a line for each finding, and exits 1 if `auditConfig.ignoreGhsas` of pnpm-workspace.yaml does not name all of
 * them. If the registry refuses the request, as many mirrors do, it prints the reason and exits 0, or 2 with
 * `--required`. `--list` only prints the packages that it would ask about. Folders of packages as arguments replace the
 * five above.
 *
 * `pnpm audit` of pnpm 10 cannot be used: it requests two endpoints that npm has retired, and includes build tools.
 */
// not from "effect", all of which takes longer to load than an audit takes
import * as Schema from "effect/Schema"
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { parse } from "yaml"

const parts = ["admin", "api", "client", "console", "worker"].map((name) => `packages/${name}`)
const timeoutMillis = 10_000

/** Every version is known to be vulnerable, so that a registry which reports nothing for it answers nothing at all. */
const probe = "node-serialize"

/** Of npm's `POST /-/npm/v1/security/advisories/bulk`: by package, the advisories about versions it was asked for. */
const Answer = Schema.Record(
  Schema.String,
  Schema.Array(Schema.Struct({
    url: Schema.String,
    title: Schema.String,
    severity: Schema.String,
    vulnerable_versions: Schema.String
  }))
)
type Answer = typeof Answer.Type

class NotAudited extends Error {}

interface Dependencies {
  readonly dependencies?: Readonly<Record<string, string | { readonly version: string }>>
  readonly optionalDependencies?: Readonly<Record<string, string | { readonly version: string }>>
}

interface Lockfile {
  readonly importers: Readonly<Record<string, Dependencies>>
  readonly snapshots: Readonly<Record<string, Dependencies>>
}

const main = async (): Promise<number> => {
  const { positionals, values: options } = parseArgs({
    allowPositionals: true,
    options: { list: { type: "boolean", default: false }, required: { type: "boolean", default: false } }
  })
  const installed = installedBy(positionals.length === 0 ? parts : positionals)
  const all = [...installed].flatMap(([name, versions]) => [...versions].map((version) => `${name}@${version}`))
  if (options.list) return print(...all.toSorted())
  try {
    const findings = findingsIn(await ask(installed), installed)
    if (findings.length === 0) return print(`${all.length} packages, none with a known advisory`)
    print(...findings.map(({ accepted, line }) => accepted ? `${line} (accepted)` : line))
    return findings.every(({ accepted }) => accepted) ? 0 : 1
  } catch (error) {
    if (!(error instanceof NotAudited)) throw error
    print(`not audited: ${error.message}`)
    return options.required ? 2 : 0
  }
}

const print = (...lines: ReadonlyArray<string>): 0 => {
  process.stdout.write(lines.map((line) => `${line}\n`).join(""))
  return 0
}

type Installed = ReadonlyMap<string, ReadonlySet<string>>

/** Packages that these folders install in production, by name; workspace packages are followed, not listed. */
const installedBy = (folders: ReadonlyArray<string>): Installed => {
  const { importers, snapshots }: Lockfile = parse(readFileSync("pnpm-lock.yaml", "utf8"))
  const installed = new Map<string, Set<string>>()
  const visited = new Set<string>()
  const visit = (key: string, folder: string, node: Dependencies | undefined): void => {
    if (node === undefined) throw new Error(`pnpm-lock.yaml has no ${key}`)
    if (visited.has(key)) return
    visited.add(key)
    for (const [alias, one] of Object.entries({ ...node.dependencies, ...node.optionalDependencies })) {
      const version = typeof one === "string" ? one : one.version
      if (version.startsWith("link:")) {
        const linked = join(folder, version.slice("link:".length))
        visit(linked, linked, importers[linked])
        continue
      }
      // An alias stands for `name@version`, and peers in brackets for the versions this one was resolved with.
      const snapshot = `${alias}@${version}` in snapshots ? `${alias}@${version}` : version
      const [, name = "", exact = ""] = /^(.[^@(]*)@([^(]+)/.exec(snapshot) ?? []
      installed.set(name, (installed.get(name) ?? new Set()).add(exact))
      visit(snapshot, folder, snapshots[snapshot])
    }
  }
  for (const folder of folders) visit(folder, folder, importers[folder])
  return installed
}

const ask = async (installed: Installed): Promise<Answer> => {
  const question = Object.fromEntries([...installed].map(([name, versions]) => [name, [...versions]]))
  const text = await post("-/npm/v1/security/advisories/bulk", { ...question, [probe]: ["0.0.4"] })
  const answer = Schema.decodeUnknownOption(Schema.fromJsonString(Answer))(text)
  if (answer._tag === "None") throw new NotAudited("the registry answers with something else than advisories")
  if ((answer.value[probe] ?? []).length === 0) throw new NotAudited("the registry knows no advisories at all")
  return answer.value
}

/** Without credentials: a registry that wants them refuses, and is reported. */
const post = async (path: string, body: unknown): Promise<string> => {
  const registry = execFileSync("npm", ["config", "get", "registry"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"]
  }).trim()
  const request = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(timeoutMillis)
  }
  try {
    const response = await fetch(`${registry.replace(/\/$/, "")}/${path}`, request)
    if (!response.ok) throw new NotAudited(`the registry answers ${response.status}`)
    return await response.text()
  } catch (error) {
    if (error instanceof NotAudited) throw error
    throw new NotAudited(
      request.signal.aborted ? `no answer within ${timeoutMillis / 1000} s` : "the registry cannot be reached"
    )
  }
}

const findingsIn = (answer: Answer, installed: Installed) => {
  const accepted: ReadonlyArray<string> =
    parse(readFileSync("pnpm-workspace.yaml", "utf8")).auditConfig?.ignoreGhsas ?? []
  return [...installed].flatMap(([name, versions]) =>
    (answer[name] ?? []).map(({ severity, title, url, vulnerable_versions }) => ({
      accepted: accepted.some((id) => url.endsWith(`/${id}`)),
      line: `${name}@${[...versions].join(", ")}: ${severity}: ${title}; affects ${vulnerable_versions}; ${url}`
    }))
  )
}

process.exitCode = await main()
