import { awaitSchema } from "@card-rewards/core/AwaitSchema"
import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import * as Process from "@card-rewards/core/Process"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Secrets } from "@card-rewards/core/Secrets"
import * as Settings from "@card-rewards/core/Settings"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { defaultRetryDelays, parseRetryDelays } from "@card-rewards/domain/Delivery"
import { Effect, Layer } from "effect"
import { Connector } from "./Connector.ts"
import * as RewardMaturer from "./RewardMaturer.ts"
import * as SpendProcessor from "./SpendProcessor.ts"
import * as VitalsReporter from "./VitalsReporter.ts"
import * as WebhookDispatcher from "./WebhookDispatcher.ts"

/** The worker's process: reads the environment, waits for its schema, and runs the fibers of stored work. */
const work = Effect.gen(function*() {
  const config = yield* Settings.shared
  const expected = "1 to 50 durations of 1ms to 7d such as 300ms,5s,2m,1h"
  const retryDelays = yield* Settings.setting("WEBHOOK_RETRY_DELAYS", expected, defaultRetryDelays, parseRetryDelays)
  const database = yield* awaitSchema(
    { url: config.databaseUrl, poolSize: config.poolSize, applicationName: "card-rewards worker" },
    "worker"
  )
  const services = Layer.mergeAll(
    Processing.layer.pipe(Layer.provide(Programs.layer)),
    Deliveries.layer({ retryDelays }).pipe(
      Layer.provide(WebhookEndpoints.layer(config)),
      Layer.provide(Secrets.layer({ keys: config.secretsKeys }))
    ),
    Connector.layer(config)
  ).pipe(Layer.provideMerge(Database.layer(database)))
  const fibers = Layer.mergeAll(
    SpendProcessor.layer,
    RewardMaturer.layer,
    WebhookDispatcher.layer,
    VitalsReporter.layer
  )
  return yield* Layer.launch(Layer.provide(fibers, services))
})

Process.run(work, { name: "worker", terminal: process.stdout.isTTY })
