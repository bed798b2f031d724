import type { Deliveries, EndpointLease } from "@card-rewards/core/Deliveries"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { type Clock, Effect } from "effect"
import { Consumer } from "./Consumer.ts"
import type { Consumers, Held } from "./Consumers.ts"
import type { Sender } from "./Sender.ts"

/** How long a lease lasts without renewal (decisions, section 7), and how often it is renewed in that time. */
export const defaultMillis = 30_000
export const renewalsPerLease = 6

/** An attempt takes 15 s at most; no attempt starts when its lease ends sooner than this part of its duration. */
const attemptPart = 17 / 30

/** A renewal tries again to extend the leases of locked endpoints, for this part of the duration of a lease. */
const busyPart = 1 / 30
const busyPauseMillis = 50

/** Endpoints that one process holds, and leases at a time, at most. */
const maxHeld = 2_048
const maxLeased = 64

/** Integrators that one line of the log names, at most. */
const maxNamed = 5

/** What the fibers of a dispatcher share. */
export interface DispatcherContext {
  readonly deliveries: Deliveries["Service"]
  readonly consumers: Consumers
  readonly sender: Sender
  readonly clock: Clock.Clock
  readonly retryDelays: RetryDelays
  readonly leaseMillis: number
  /** The name of this process in leases. */
  readonly worker: string
}

/** Leases endpoints with work, and gives up those without. Returns whether there was anything. */
export const lease = (context: DispatcherContext) =>
  Effect.gen(function*() {
    const { clock, consumers, deliveries, leaseMillis, retryDelays, sender, worker } = context
    // own leases that have ended are renewed rather than leased again, which would lose what is not recorded
    const nowNanos = clock.monotonicTimeNanosUnsafe()
    yield* extend(context, [...consumers].filter(({ endsNanos }) => endsNanos < nowNanos))
    yield* release(context, consumers.count >= maxHeld)
    const limit = Math.min(maxLeased, maxHeld - consumers.count)
    if (limit <= 0) return false
    const times = timesOf(context)
    const now = clock.currentTimeMillisUnsafe()
    const leased = yield* deliveries.lease({ worker, now, until: now + leaseMillis, limit })
    for (const one of leased) {
      const before = consumers.get(one.integratorId)
      if (before !== undefined) sender.lose(before.consumer)
      consumers.add({ consumer: new Consumer(one, now, retryDelays), ...times })
    }
    for (const [other, taken] of Map.groupBy(leased, ({ takenFrom }) => takenFrom)) {
      if (other === null || other === worker) continue
      yield* Effect.logInfo(`Took over webhooks from worker ${other}, whose lease has ended: ${names(taken)}`)
    }
    return leased.length > 0
  })

/**
 * Extends all leases. Endpoints that are locked are tried again for a moment, because mostly it is a record of this
 * process that locks them. Where it lasts, no attempt starts that the lease might not outlast.
 */
export const renew = Effect.fnUntraced(function*(context: DispatcherContext) {
  const { clock, consumers, leaseMillis } = context
  const untilNanos = clock.monotonicTimeNanosUnsafe() + BigInt(Math.round(leaseMillis * busyPart * 1e6))
  let busy = yield* extend(context, [...consumers])
  while (busy.length > 0 && clock.monotonicTimeNanosUnsafe() < untilNanos) {
    yield* Effect.sleep(busyPauseMillis)
    busy = yield* extend(context, busy)
  }
  return false
})

/** Extends some leases. Returns those of endpoints that are locked, which end when they did. */
const extend = Effect.fnUntraced(function*(context: DispatcherContext, leases: ReadonlyArray<Held>) {
  if (leases.length === 0) return []
  const { clock, deliveries, leaseMillis } = context
  const times = timesOf(context)
  const until = clock.currentTimeMillisUnsafe() + leaseMillis
  const { busy, renewed } = yield* deliveries.renew(leases.map(({ consumer }) => consumer.lease), until)
  const idOf = ({ consumer }: Held) => consumer.lease.integratorId
  const isBusy = (held: Held) => busy.has(idOf(held))
  for (const held of leases) if (renewed.has(idOf(held))) Object.assign(held, times)
  const lost = leases.filter((held) => !renewed.has(idOf(held)) && !isBusy(held))
  yield* lose(context, lost.map(({ consumer }) => consumer))
  return leases.filter(isBusy)
})

/**
 * Gives up some leases of endpoints with nothing to do, or of any with nothing in flight; keeps those that are locked.
 * Where that fails, the next step renews those that are still held. Returns whether any was given up.
 */
export const release = Effect.fnUntraced(function*(
  { clock, consumers, deliveries, sender }: DispatcherContext,
  isAny: boolean
) {
  const now = clock.currentTimeMillisUnsafe()
  const released = [...consumers].flatMap((held) => {
    const lease = held.consumer.release(now, isAny)
    return lease === undefined ? [] : [{ held, lease }]
  }).slice(0, maxLeased)
  for (const { held } of released) consumers.delete(held.consumer)
  if (released.length === 0) return false
  // their part of the process's limits is free for other cells
  sender.schedule()
  const busy = yield* deliveries.release(released.map(({ lease }) => lease), now).pipe(
    Effect.onError(() =>
      Effect.sync(() => {
        for (const { held } of released) consumers.add({ ...held, startUntilNanos: 0n, endsNanos: 0n })
      })
    )
  )
  for (const { held, lease } of released) if (busy.has(lease.integratorId)) consumers.add(held)
  return busy.size < released.length
})

/** Drops endpoints that another worker has leased, or that are deleted. */
export const lose = ({ consumers, sender }: DispatcherContext, lost: ReadonlyArray<Consumer>) => {
  const held = lost.filter((consumer) => consumers.get(consumer.lease.integratorId)?.consumer === consumer)
  if (held.length === 0) return Effect.void
  for (const consumer of held) sender.lose(consumer)
  return Effect.logInfo(`Lost webhooks to another worker, or to a deletion: ${names(held.map(({ lease }) => lease))}`)
}

/** The integrators of leases; of many the first ones. */
const names = (leases: ReadonlyArray<EndpointLease>): string => {
  const first = leases.slice(0, maxNamed).map(({ integratorId }) => integratorId).join(", ")
  return leases.length > maxNamed ? `${first} and ${leases.length - maxNamed} more` : first
}

/** Counted from before the statement that leases or renews, on a clock that does not jump. */
const timesOf = ({ clock, leaseMillis }: DispatcherContext) => {
  const nowNanos = clock.monotonicTimeNanosUnsafe()
  const after = (part: number) => nowNanos + BigInt(Math.round(leaseMillis * part * 1e6))
  return { startUntilNanos: after(1 - attemptPart), endsNanos: after(1) }
}
