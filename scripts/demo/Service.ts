import { Effect, Schedule, Schema } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const startTimeout = "90 seconds"
/** Longer than `npm start` waits for its own processes. */
const stopTimeout = "20 seconds"

const DemoFile = Schema.fromJsonString(Schema.Struct({
  baseUrl: Schema.String,
  integratorId: Schema.String,
  apiKey: Schema.String
}))

/** `npm start` over a temporary folder; succeeds with the contents of `demo.json`. */
export const startService = Effect.gen(function*() {
  const dataDir = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "card-rewards-demo-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  yield* Effect.acquireRelease(Effect.sync(() => launch(dataDir)), stop)
  return yield* Effect.try({
    try: () => readFileSync(path.join(dataDir, "demo.json"), "utf8"),
    catch: () => "not written yet" as const
  }).pipe(
    Effect.flatMap(Schema.decodeUnknownEffect(DemoFile)),
    Effect.retry(Schedule.spaced("50 millis")),
    Effect.timeout(startTimeout)
  )
})

const launch = (dataDir: string): ChildProcess => {
  const { DATABASE_URL: _database, SECRETS_KEY: _secrets, ...inherited } = process.env
  const child = spawn(process.execPath, ["--import", "./scripts/lifeline.mjs", "scripts/start.ts"], {
    cwd: root,
    env: {
      ...inherited,
      DATA_DIR: dataDir,
      ENVIRONMENT: "sandbox",
      HOST: "127.0.0.1",
      PORT: "0",
      WEBHOOK_ALLOW_PRIVATE_NETWORK: "true",
      LOG_LEVEL: "warn"
    },
    stdio: ["ignore", "ignore", "inherit", "pipe"]
  })
  child.stdio[3]?.on("error", () => undefined)
  return child
}

const stop = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGTERM")
  }).pipe(Effect.timeoutOrElse({ duration: stopTimeout, orElse: () => Effect.sync(() => child.kill("SIGKILL")) }))
