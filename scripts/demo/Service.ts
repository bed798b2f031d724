import { temporaryFolder } from "@card-rewards/dev-postgres/TemporaryFolder"
import { Data, Duration, Effect, Schedule } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import { ended, stop } from "../start/Children.ts"
import * as DemoFile from "../start/DemoFile.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const startTimeout = "90 seconds"
/** Longer than `npm start` waits for its own processes. */
const stopTimeout = Duration.seconds(20)

/** The service ended by itself, and has printed why. */
export class ServiceEnded extends Data.TaggedError("ServiceEnded")<{ readonly message: string }> {}

/** `npm start` over a temporary folder; succeeds with the contents of `demo.json`, and with its end as a failure. */
export const startService = Effect.gen(function*() {
  const dataDir = yield* temporaryFolder("card-rewards-demo-")
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => launch(dataDir)),
    (child) => stop(child, stopTimeout)
  )
  const written = DemoFile.read(dataDir).pipe(
    Effect.retry(Schedule.spaced("50 millis")),
    Effect.timeout(startTimeout)
  )
  const failed = (what: string) =>
    Effect.flatMap(ended(child), (end) => Effect.fail(new ServiceEnded({ message: `The service ${what} (${end})` })))
  const demo = yield* Effect.raceFirst(written, failed("did not start"))
  return { ...demo, ended: failed("ended") }
})

const launch = (dataDir: string): ChildProcess => {
  const { CELLS: _cells, DATABASE_URL: _database, SECRETS_KEY: _secrets, ...inherited } = process.env
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
