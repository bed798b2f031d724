import { maxParallel, Processing, SlowScanMillis } from "@card-rewards/core/Processing"
import { Effect, Latch, Layer } from "effect"
import * as Loop from "./Loop.ts"

/**
 * Pauses after a scan that found no stored event: the first one after work, and the longest, which is the longest wait
 * of an event while the worker is idle.
 */
const firstIdleMillis = 3
const idleMillis = 40

/**
 * Pause after a small batch. A batch of a few events costs little less than one of fifty, and takes the cores from the
 * processes that store events and deliver webhooks: with the pause events wait less for all of them together.
 */
const restMillis = 2

/** Pause of a helper fiber, unless a batch of at least {@link helpedFromUnits} wakes it. */
const helperIdleMillis = 10_000

/** Units of work of one batch from which the helper fibers join in. */
const helpedFromUnits = 200

/** See {@link SlowScanMillis}. */
const slowScanMillis = 5

/** Pause of the retry fiber while no integrator in quarantine is due. */
const retryIdleMillis = 250

/**
 * Fibers that turn stored spend events into rewards: while PostgreSQL executes the writes of some, another one decides
 * its events. They share the lanes by locking them, as processes would. All but the first, the helpers, sleep while the
 * batches are small: each batch has costs of its own, and events that wait for it share those of the next one. One more
 * fiber processes the events of integrators in quarantine.
 */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const { processEvents, quarantined, retryQuarantined } = yield* Processing
  const muchWork = yield* Latch.make(false)
  const step = processEvents.pipe(
    Effect.provideService(SlowScanMillis, slowScanMillis),
    Effect.tap((units) => units < helpedFromUnits ? muchWork.close : muchWork.open),
    Loop.working
  )
  const help = Effect.map(step, (hasWorked) => hasWorked && muchWork.isOpen())
  return Layer.mergeAll(
    Loop.layer("SpendProcessor", step, {
      firstIdleMillis,
      idleMillis,
      rest: () => muchWork.isOpen() ? 0 : restMillis
    }),
    ...Array.from({ length: maxParallel - 1 }, (_, helper) =>
      Loop.layer(`SpendProcessor helper ${helper + 1}`, help, { idleMillis: helperIdleMillis, wake: muchWork.await })),
    Loop.layer("SpendProcessor retries", Loop.working(retryQuarantined), {
      idleMillis: retryIdleMillis,
      wake: quarantined
    })
  )
}))
