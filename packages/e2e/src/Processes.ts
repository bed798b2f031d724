import { Deferred, Effect, type Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"

/** The checkout, where every process is started. */
export const root = resolve(import.meta.dirname, "../../..")

export type Variables = Readonly<Record<string, string>>

/** A real process of the service. */
export interface Running {
  readonly pid: number
  /** All that it printed. */
  readonly output: () => string
  readonly send: (signal: "SIGTERM" | "SIGKILL") => Effect.Effect<void>
  /** Its exit code, `null` where a signal ended it. */
  readonly exit: Effect.Effect<number | null>
  readonly isAlive: () => boolean
  /** Resident memory in bytes; 0 once it is gone. */
  readonly residentBytes: () => number
}

/** Starts `packages/<name>/src/main.ts` with these variables alone; it is killed with the scope at the latest. */
export const start = (
  name: "api" | "worker" | "admin",
  env: Variables,
  options: { readonly args?: ReadonlyArray<string>; readonly preload?: string } = {}
): Effect.Effect<Running, never, Scope.Scope> => {
  const preload = options.preload === undefined ? [] : ["--import", options.preload]
  const args = [...preload, `packages/${name}/src/main.ts`, ...(options.args ?? [])]
  return Effect.acquireRelease(
    Effect.sync(() => running(spawn(process.execPath, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] }))),
    (child) => Effect.andThen(child.send("SIGKILL"), child.exit)
  )
}

const running = (child: ChildProcess): Running => {
  const printed: Array<string> = []
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", (text) => printed.push(text))
  const closed = Deferred.makeUnsafe<number | null>()
  child.once("close", (code) => Deferred.doneUnsafe(closed, Effect.succeed(code)))
  const isAlive = () => child.exitCode === null && child.signalCode === null
  return {
    pid: child.pid ?? -1,
    output: () => printed.join(""),
    send: (signal) => Effect.sync(() => void (isAlive() && child.kill(signal))),
    exit: Deferred.await(closed),
    isAlive,
    residentBytes: () => isAlive() ? residentBytesOf(child.pid ?? -1) : 0
  }
}

const residentBytesOf = (pid: number): number => {
  try {
    return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0)
  } catch {
    return 0
  }
}

/** Runs an operator's command to its end; dies with its output where it exits other than 0. */
export const admin = (env: Variables, ...args: ReadonlyArray<string>): Effect.Effect<string> =>
  Effect.scoped(Effect.gen(function*() {
    const command = yield* start("admin", env, { args })
    const code = yield* command.exit
    if (code !== 0) return yield* Effect.die(new Error(`admin ${args.join(" ")}: exit ${code}: ${command.output()}`))
    return command.output()
  }))

/** A port of 127.0.0.1 that nobody listens on now. */
export const freePort: Effect.Effect<number> = Effect.callback((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

/** What api and worker are given: a database, a port, retries within a second and no rate limits. */
export const variables = (databaseUrl: string, more: Variables = {}): Variables => ({
  PATH: process.env["PATH"] ?? "",
  DATABASE_URL: databaseUrl,
  SECRETS_KEY: Buffer.alloc(32, 7).toString("base64"),
  PORT: "0",
  WEBHOOK_ALLOW_PRIVATE_NETWORK: "true",
  WEBHOOK_RETRY_DELAYS: Array.from({ length: 50 }, () => "300ms").join(),
  RATE_LIMIT_INGEST: "off",
  RATE_LIMIT_READ: "off",
  RATE_LIMIT_MANAGE: "off",
  LOG_LEVEL: "warn",
  ...more
})

/** A folder that is removed with the scope. */
export const folder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "card-rewards-e2e-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)
