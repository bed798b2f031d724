import { Processing, QuickLookMillis } from "@card-rewards/core/Processing"
import { Effect, Latch, Layer } from "effect"
import { storing } from "./Deliverable.ts"
import * as Loop from "./Loop.ts"

/** Pause after a look that found no stored event: what an event waits for at most while the worker is idle. */
const idleMillis = 40

/** The helper's; it is woken where there is work for two. */
const helperIdleMillis = 10_000

/** Events of one batch that there is work for two from. */
const helpedFrom = 100

/** Looks that take longer do not follow each other at once. */
const quickLookMillis = 5

/**
 * Two fibers that turn stored spend events into rewards: while PostgreSQL writes what one has decided, the other one
 * decides. They divide the lanes as two processes would. The second one rests while the batches are small.
 */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const { processEvents } = yield* Processing
  const muchWork = yield* Latch.make(false)
  const step = processEvents.pipe(
    Effect.provideService(QuickLookMillis, quickLookMillis),
    Effect.tap((count) => count < helpedFrom ? muchWork.close : muchWork.open),
    storing
  )
  return Layer.merge(
    Loop.layer("SpendProcessor", step, { idleMillis }),
    Loop.layer("SpendProcessor helper", step, { idleMillis: helperIdleMillis, wake: muchWork.await })
  )
}))
