import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { Context, Deferred, Effect, Layer, Redacted, Schedule, Schema } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"

/** What `npm start` writes for those who want to call it. */
const DemoFile = Schema.fromJsonString(Schema.Struct({
  baseUrl: Schema.String,
  integratorId: Schema.String,
  apiKey: Schema.String
}))

const root = resolve(import.meta.dirname, "../../..")

/** The whole service as `npm start` runs it, its processes over a database of their own. */
export class Service extends Context.Service<Service, {
  readonly baseUrl: string
  readonly integratorId: string
  readonly apiKey: Redacted.Redacted
  /** The launcher's process id. */
  readonly pid: number
  /** Runs an operator's command against the same database; fails with its output where it exits other than 0. */
  readonly admin: (...args: ReadonlyArray<string>) => Effect.Effect<string, CommandFailed>
}>()("@card-rewards/e2e/Service") {
  static readonly layer = Layer.effect(
    Service,
    Effect.gen(function*() {
      const url = yield* TestDatabase.makeEmpty
      const dataDir = mkdtempSync(join(tmpdir(), "card-rewards-e2e-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(dataDir, { recursive: true, force: true })))
      const env = {
        ...environment(),
        DATABASE_URL: Redacted.value(url),
        SECRETS_KEY: Buffer.alloc(32, 7).toString("base64"),
        DATA_DIR: dataDir,
        PORT: "0",
        WEBHOOK_ALLOW_PRIVATE_NETWORK: "true",
        WEBHOOK_RETRY_DELAYS: "100ms,200ms,1s",
        LOG_LEVEL: "warn"
      }
      const launcher = yield* Effect.acquireRelease(
        Effect.sync(() => spawn(nodeBinary, ["scripts/start.ts"], { cwd: root, env, stdio: "inherit" })),
        stop
      )
      const demo = yield* Effect.try({
        try: () => readFileSync(join(dataDir, "demo.json"), "utf8"),
        catch: () => "not yet" as const
      }).pipe(
        Effect.flatMap(Schema.decodeUnknownEffect(DemoFile)),
        Effect.retry(Schedule.spaced("50 millis")),
        Effect.timeout("90 seconds")
      )
      return Service.of({
        baseUrl: demo.baseUrl,
        integratorId: demo.integratorId,
        apiKey: Redacted.make(demo.apiKey),
        pid: launcher.pid ?? -1,
        admin: (...args) => run(["packages/admin/src/main.ts", ...args], env)
      })
    })
  )
}

/** A command that exited other than 0, with what it printed. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", { message: Schema.String }) {}

const nodeBinary = process.execPath

const environment = () => ({ PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "" })

/** SIGTERM, and the exit; SIGKILL where that takes longer than any stop may. */
const stop = Effect.fnUntraced(function*(child: ChildProcess) {
  const exited = yield* Deferred.make<void>()
  if (child.exitCode !== null || child.signalCode !== null) return
  child.once("exit", () => Deferred.doneUnsafe(exited, Effect.void))
  child.kill("SIGTERM")
  yield* Deferred.await(exited).pipe(
    Effect.timeout("20 seconds"),
    Effect.onError(() => Effect.sync(() => child.kill("SIGKILL"))),
    Effect.ignore
  )
})

const run = (args: ReadonlyArray<string>, env: Record<string, string>) =>
  Effect.callback<string, CommandFailed>((resume) => {
    const child = spawn(nodeBinary, args, { cwd: root, env })
    let output = ""
    child.stdout.on("data", (chunk) => output += chunk)
    child.stderr.on("data", (chunk) => output += chunk)
    child.once("exit", (code) =>
      resume(code === 0 ? Effect.succeed(output) : Effect.fail(new CommandFailed({ message: `exit ${code}: ${output}` }))))
    return Effect.sync(() => child.kill("SIGKILL"))
  })
