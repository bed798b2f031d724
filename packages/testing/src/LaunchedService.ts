import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { Context, Effect, Layer, Redacted, Schedule, Schema } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type CommandFailed, folder, root, runAdmin } from "./Processes.ts"
import { secretsKeyText } from "./Secrets.ts"
import * as TestProcess from "./TestProcess.ts"

/** What `npm start` writes for its callers. */
const DemoFile = Schema.fromJsonString(Schema.Struct({
  baseUrl: Schema.String,
  integratorId: Schema.String,
  apiKey: Schema.String
}))

/** The whole service as `npm start` runs it, its processes over a database of their own. */
export class LaunchedService extends Context.Service<LaunchedService, {
  readonly baseUrl: string
  readonly integratorId: string
  readonly apiKey: Redacted.Redacted
  /** The address of its database, as the owner. */
  readonly databaseUrl: Redacted.Redacted
  /** The launcher's process id. */
  readonly pid: number
  /** Runs an operator's command against the same database; fails with its output where it exits other than 0. */
  readonly admin: (...args: ReadonlyArray<string>) => Effect.Effect<string, CommandFailed>
}>()("@card-rewards/testing/LaunchedService") {
  static readonly layer = Layer.effect(
    LaunchedService,
    Effect.gen(function*() {
      const url = yield* TestDatabase.makeEmpty
      const dataDir = yield* folder
      const env = {
        PATH: process.env["PATH"] ?? "",
        HOME: process.env["HOME"] ?? "",
        DATABASE_URL: Redacted.value(url),
        SECRETS_KEY: secretsKeyText,
        DATA_DIR: dataDir,
        PORT: "0",
        WEBHOOK_ALLOW_PRIVATE_NETWORK: "true",
        WEBHOOK_RETRY_DELAYS: "100ms,200ms,1s",
        LOG_LEVEL: "warn"
      }
      const launcher = yield* TestProcess.start(["scripts/start.ts"], { cwd: root, env })
      // a launcher stops what it started
      yield* Effect.addFinalizer(() =>
        Effect.andThen(launcher.send("SIGTERM"), Effect.timeoutOption(launcher.exit, "20 seconds")))
      const demo = yield* Effect.try({
        try: () => readFileSync(join(dataDir, "demo.json"), "utf8"),
        catch: () => "not yet" as const
      }).pipe(
        Effect.flatMap(Schema.decodeUnknownEffect(DemoFile)),
        Effect.retry(Schedule.spaced("50 millis")),
        Effect.timeoutOrElse({
          duration: "90 seconds",
          orElse: () => Effect.die(new Error(`The service does not start: ${launcher.output()}`))
        })
      )
      return LaunchedService.of({
        baseUrl: demo.baseUrl,
        integratorId: demo.integratorId,
        apiKey: Redacted.make(demo.apiKey),
        databaseUrl: url,
        pid: launcher.pid,
        admin: (...args) => runAdmin(env, ...args)
      })
    })
  )
}
