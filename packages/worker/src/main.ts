import { awaitSchema } from "@card-rewards/core/AwaitSchema"
import * as Process from "@card-rewards/core/Process"
import * as Settings from "@card-rewards/core/Settings"
import { defaultRetryDelays, parseRetryDelays } from "@card-rewards/domain/Delivery"
import { Effect, Layer } from "effect"
import * as Fibers from "./Fibers.ts"

/** The worker's process: reads the environment, waits for its schema, and runs the fibers of stored work. */
const work = Effect.gen(function*() {
  const config = yield* Settings.shared
  const expected = "1 to 50 durations of 1ms to 7d such as 300ms,5s,2m,1h"
  const retryDelays = yield* Settings.setting("WEBHOOK_RETRY_DELAYS", expected, defaultRetryDelays, parseRetryDelays)
  const database = yield* awaitSchema(
    { url: config.databaseUrl, poolSize: config.poolSize, applicationName: "card-rewards worker" },
    "worker"
  )
  return yield* Layer.launch(Fibers.layer({ ...config, retryDelays, database }))
})

Process.run(work, { name: "worker", terminal: process.stdout.isTTY })
