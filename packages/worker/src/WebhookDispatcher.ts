import { Deliveries } from "@card-rewards/core/Deliveries"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { Clock, Effect, Fiber, Latch, Layer, Schedule } from "effect"
import { randomUUID } from "node:crypto"
import { defaultRetentionDays } from "./Configuration.ts"
import { DispatcherWakeUp, WakeUp } from "./DispatcherWakeUp.ts"
import * as Loop from "./Loop.ts"
import type { CellShares } from "./WebhookDispatcher/CellShares.ts"
import { Consumers } from "./WebhookDispatcher/Consumers.ts"
import * as Leases from "./WebhookDispatcher/Leases.ts"
import * as Polls from "./WebhookDispatcher/Polls.ts"
import * as Reads from "./WebhookDispatcher/Reads.ts"
import * as Records from "./WebhookDispatcher/Records.ts"
import * as Sender from "./WebhookDispatcher/Sender.ts"

/** Pause after a step that found nothing to do, unless an attempt ends, or this process stores events, before. */
const idleMillis = 60
/** Pause after a step that found no endpoint deleted. */
const purgeIdleMillis = 500
/** How often the partitions of attempts are looked after, which are created a week ahead at least. */
const keepIdleMillis = 3_600_000
/** How long a stopping process waits for its steps and attempts; those that have not ended then are aborted. */
const drainMillis = 6_500
const drainPollMillis = 10
/** Timeout for releasing some of the leases that are left then; where it is exceeded, the rest is left to its end. */
const lastReleaseMillis = 500

export interface Options {
  readonly retryDelays: RetryDelays
  /** How many days attempts are kept; 90 when absent. */
  readonly retentionDays?: number | undefined
  /** How long a lease lasts without renewal; 30 s when absent (decisions, section 7). */
  readonly leaseMillis?: number | undefined
  /** The limits of all cells of the process together; a cell has its own when absent. */
  readonly cellShares?: CellShares | undefined
}

/**
 * The fibers that deliver events (contract, section 6; decisions, section 7): one leases endpoints, one finds out which
 * of them are to be read, one reads what is to be delivered, one records what became of it, one renews the leases, so
 * that none waits for another's statements. Two more clear away what deleted endpoints and old attempts have left.
 */
export const layer = (options: Options) => Layer.unwrap(make(options))

const make = Effect.fnUntraced(function*(options: Options) {
  const { leaseMillis = Leases.defaultMillis, retentionDays = defaultRetentionDays, retryDelays } = options
  const deliveries = yield* Deliveries
  const clock = yield* Clock.Clock
  const consumers = new Consumers(options.cellShares)
  yield* Effect.addFinalizer(() => Effect.sync(() => consumers.cellShares.forget(consumers)))
  const stored = (yield* DispatcherWakeUp) ?? new WakeUp()
  const wakeUps = { reads: yield* Latch.make(), records: yield* Latch.make() }
  const sender = yield* Sender.make(consumers, wakeUps)
  const worker = randomUUID()
  const context = { deliveries, consumers, sender, clock, retryDelays, leaseMillis, worker }
  yield* Effect.logInfo(`Delivers webhooks as worker ${worker}`)

  const lease = leaseStep(context, stored, wakeUps.reads)
  const read = Effect.andThen(wakeUps.reads.close, Reads.step(context))
  /** Gives up each endpoint as soon as nothing is in flight for it. */
  const releaseSome = Effect.ignore(Leases.release(context, true))
  const drain = Effect.repeat(releaseSome, {
    while: () => consumers.count > 0,
    schedule: Schedule.spaced(drainPollMillis)
  })

  /** A partition whose locks are not free is created or dropped the next time. */
  const keepAttempts = deliveries.keepAttempts(retentionDays).pipe(
    Effect.catchCause((cause) => Effect.logWarning("The partitions of webhook attempts were not changed", cause)),
    Effect.as(false)
  )
  const releaseAll = Leases.release(context, true).pipe(
    Effect.timeout(lastReleaseMillis),
    Effect.repeat({ while: (isMore) => isMore })
  )
  const start = Effect.all([
    Loop.run("WebhookDispatcher leases", Effect.uninterruptible(lease), { idleMillis, wake: stored.awaiting }),
    Loop.run("WebhookDispatcher reads", Effect.uninterruptible(read), { idleMillis, wake: wakeUps.reads.await })
  ].map((loop) => Effect.forkDetach(loop)))
  /** A stopped process gives its leases up, so that other workers need not wait for their end. */
  const stop = Effect.fnUntraced(function*(fibers: Effect.Success<typeof start>) {
    sender.stop()
    yield* Effect.timeoutOption(Effect.andThen(Fiber.interruptAll(fibers), drain), drainMillis)
    sender.abort()
    yield* Effect.ignore(releaseAll)
  })
  const leasing = Layer.effectDiscard(Effect.acquireRelease(start, stop))

  // closed in reverse: no more attempts, those in flight end and are recorded, the leases are given up
  return leasing.pipe(Layer.provideMerge(Layer.mergeAll(
    Loop.layer("WebhookDispatcher records", Effect.andThen(wakeUps.records.close, Records.step(context)), {
      idleMillis,
      wake: wakeUps.records.await
    }),
    Loop.layer("WebhookDispatcher polls", Polls.step(context, wakeUps.reads), { idleMillis }),
    Loop.layer("WebhookDispatcher renews", Leases.renew(context), {
      idleMillis: leaseMillis / Leases.renewalsPerLease
    }),
    Loop.layer("WebhookDispatcher purges", Effect.flatMap(Clock.currentTimeMillis, deliveries.purge), {
      idleMillis: purgeIdleMillis
    }),
    Loop.layer("WebhookDispatcher keeps attempts", keepAttempts, { idleMillis: keepIdleMillis })
  )))
})

/**
 * Has stored events read at once whose endpoints are held, and leases other endpoints. Where all are held, it scans for
 * others no more often than without wake-ups.
 */
const leaseStep = (context: Leases.DispatcherContext, stored: WakeUp, reads: Latch.Latch) => {
  const { clock, consumers } = context
  let scannedNanos = 0n
  return Effect.gen(function*() {
    const areAllHeld = consumers.markUnread(stored.take())
    const nowNanos = clock.monotonicTimeNanosUnsafe()
    const isScanning = !areAllHeld || Number(nowNanos - scannedNanos) >= 1e6 * idleMillis
    if (isScanning) scannedNanos = nowNanos
    // before the reads: a lease is not given up while its endpoint is read
    const hasLeased = isScanning && (yield* Leases.lease(context))
    reads.openUnsafe()
    return hasLeased
  })
}
