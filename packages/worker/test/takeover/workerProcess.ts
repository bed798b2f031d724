/**
 * A worker as `main.ts` runs it, with two differences: its name stands in each request that it sends and in its
 * database sessions, and its leases may be shorter. Arguments: the name, and the duration of a lease in milliseconds.
 */
import { awaitSchema } from "@card-rewards/core/AwaitSchema"
import * as Process from "@card-rewards/core/Process"
import * as Configuration from "@card-rewards/worker/Configuration"
import { Connector } from "@card-rewards/worker/Connector"
import * as DispatcherWakeUp from "@card-rewards/worker/DispatcherWakeUp"
import * as RewardMaturer from "@card-rewards/worker/RewardMaturer"
import * as Services from "@card-rewards/worker/Services"
import * as SpendProcessor from "@card-rewards/worker/SpendProcessor"
import * as VitalsReporter from "@card-rewards/worker/VitalsReporter"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { Effect, Layer } from "effect"
import { sessionsOf, workerHeader } from "./Names.ts"

const [name = "", leaseMillis = ""] = process.argv.slice(2)

const namingConnector = Layer.effect(
  Connector,
  Effect.map(Connector, ({ post }) =>
    Connector.of({
      post: (input, onDone) => post({ ...input, headers: { ...input.headers, [workerHeader]: name } }, onDone)
    }))
)

const work = Effect.gen(function*() {
  const config = yield* Configuration.load
  const database = yield* awaitSchema(
    { url: config.cells[0].url, poolSize: config.poolSize, applicationName: sessionsOf(name) },
    "worker"
  )
  const services = Layer.provideMerge(namingConnector, Services.layer({ ...config, database }))
  const fibers = Layer.mergeAll(
    SpendProcessor.layer,
    RewardMaturer.layer,
    WebhookDispatcher.layer({ ...config, leaseMillis: Number(leaseMillis) }),
    VitalsReporter.layer
  )
  return yield* Layer.launch(Layer.provide(fibers, [services, DispatcherWakeUp.layer]))
})

Process.run(work, "worker")
