/** The part of the worker that turns stored events into rewards; the worker's other parts would use CPU time, too. */
import * as Database from "@card-rewards/core/Database"
import { Processing } from "@card-rewards/core/Processing"
import * as Process from "@card-rewards/core/Process"
import { Programs } from "@card-rewards/core/Programs"
import * as Settings from "@card-rewards/core/Settings"
import * as SpendProcessor from "@card-rewards/worker/SpendProcessor"
import { Effect, Layer } from "effect"

const work = Effect.gen(function*() {
  const { cells: [{ url }], poolSize } = yield* Settings.shared
  const services = Processing.layer.pipe(
    Layer.provide(Programs.layer),
    Layer.provide(Database.layer({ url, poolSize, applicationName: "card-rewards worker" }))
  )
  return yield* Layer.launch(Layer.provide(SpendProcessor.layer, services))
})

Process.run(work, "worker that only processes")
