import { Processing, QuickScanMillis } from "@card-rewards/core/Processing"
import { Effect, Latch, Layer } from "effect"
import { storing } from "./Deliverable.ts"
import * as Loop from "./Loop.ts"

/** Pause after a scan that found no stored event: what an event waits for at most while the worker is idle. */
const idleMillis = 40

/** The helper's; it is woken where there is work for two. */
const helperIdleMillis = 10_000

/** Units of work of one batch from which there is work for two. */
const helpedFromUnits = 200

/** Scans that take longer do not follow each other at once. */
const quickScanMillis = 5

/** Pause after no attempt at an integrator in quarantine was due. */
const retryIdleMillis = 250

/**
 * Two fibers that turn stored spend events into rewards: while PostgreSQL writes what one has decided, the other one
 * decides. They divide the lanes as two processes would. The second one rests while the batches are small. A third one
 * processes the events of integrators in quarantine.
 */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const { processEvents, quarantined, retryQuarantined } = yield* Processing
  const muchWork = yield* Latch.make(false)
  const step = processEvents.pipe(
    Effect.provideService(QuickScanMillis, quickScanMillis),
    Effect.tap((units) => units < helpedFromUnits ? muchWork.close : muchWork.open),
    storing
  )
  return Layer.mergeAll(
    Loop.layer("SpendProcessor", step, { idleMillis }),
    Loop.layer("SpendProcessor helper", step, { idleMillis: helperIdleMillis, wake: muchWork.await }),
    Loop.layer("SpendProcessor retries", storing(retryQuarantined), { idleMillis: retryIdleMillis, wake: quarantined })
  )
}))
