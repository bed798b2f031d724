import { awaitSchema } from "@card-rewards/core/AwaitSchema"
import * as Process from "@card-rewards/core/Process"
import { Effect, Layer } from "effect"
import * as Configuration from "./Configuration.ts"
import * as Fibers from "./Fibers.ts"

/** The worker process: reads the environment, waits for the schema, and runs the fibers. */
const work = Effect.gen(function*() {
  const config = yield* Configuration.load
  const database = yield* awaitSchema(
    { url: config.databaseUrl, poolSize: config.poolSize, applicationName: "card-rewards worker" },
    "worker"
  )
  return yield* Layer.launch(Fibers.layer({ ...config, database }))
})

Process.run(work, { name: "worker", terminal: process.stdout.isTTY })
