import { Processing, SlowScanMillis } from "@card-rewards/core/Processing"
import { Effect, Latch, Layer } from "effect"
import { wakingDispatcher } from "./DispatcherWakeUp.ts"
import * as Loop from "./Loop.ts"

/** Pause after a scan that found no stored event: the longest wait of an event while the worker is idle. */
const idleMillis = 40

/** Pause of the helper fiber, unless a batch of at least {@link helpedFromUnits} wakes it. */
const helperIdleMillis = 10_000

/** Units of work of one batch from which the helper fiber joins in. */
const helpedFromUnits = 200

/** See {@link SlowScanMillis}. */
const slowScanMillis = 5

/** Pause of the retry fiber while no integrator in quarantine is due. */
const retryIdleMillis = 250

/**
 * Two fibers that turn stored spend events into rewards: while PostgreSQL executes the writes of one, the other decides
 * its events. They share the lanes by locking them, as two processes would. The second fiber, the helper, sleeps while
 * the batches are small. A third fiber processes the events of integrators in quarantine.
 */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const { processEvents, quarantined, retryQuarantined } = yield* Processing
  const muchWork = yield* Latch.make(false)
  const step = processEvents.pipe(
    Effect.provideService(SlowScanMillis, slowScanMillis),
    Effect.tap((units) => units < helpedFromUnits ? muchWork.close : muchWork.open),
    wakingDispatcher
  )
  return Layer.mergeAll(
    Loop.layer("SpendProcessor", step, { idleMillis }),
    Loop.layer("SpendProcessor helper", step, { idleMillis: helperIdleMillis, wake: muchWork.await }),
    Loop.layer("SpendProcessor retries", wakingDispatcher(retryQuarantined), {
      idleMillis: retryIdleMillis,
      wake: quarantined
    })
  )
}))
