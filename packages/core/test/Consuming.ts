import {
  Deliveries,
  type DueDelivery,
  type EndpointLease,
  type EndpointRecord,
  type Leased,
  type Retry
} from "@card-rewards/core/Deliveries"
import { closedBreaker } from "@card-rewards/domain/Delivery"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Effect } from "effect"

const leaseMillis = 30_000

/** Leases the endpoint of one integrator, which alone has work, some time from now. */
export const leaseOf = Effect.fnUntraced(function*(integratorId: IntegratorId, afterMillis = 0) {
  const { lease } = yield* Deliveries
  const now = (yield* Clock.currentTimeMillis) + afterMillis
  const leased = yield* lease({ worker: "test", now, until: now + leaseMillis, limit: 100 })
  const own = leased.find((one) => one.integratorId === integratorId)
  return own ?? (yield* Effect.die(new Error(`${integratorId} has no work`)))
})

/** Reads what is to be delivered to a leased endpoint, some time from now. */
export const readOf = Effect.fnUntraced(function*(leased: Leased, after = leased.cursor, afterMillis = 0) {
  const { read } = yield* Deliveries
  const now = (yield* Clock.currentTimeMillis) + afterMillis
  const [reading] = yield* read([{ ...leased, after, events: 48, retries: 24, maxBytes: 1_000_000 }], now)
  return reading ?? (yield* Effect.die(new Error("the lease is lost")))
})

/** What a holder records of attempts with one status; those that failed become retries at a time from now. */
export const recordOf = Effect.fnUntraced(function*(
  lease: EndpointLease,
  deliveries: ReadonlyArray<DueDelivery>,
  status: number,
  changes: Partial<EndpointRecord> = {}
) {
  const { record } = yield* Deliveries
  const now = yield* Clock.currentTimeMillis
  const isDelivered = status < 300
  const retries = deliveries.flatMap((delivery): ReadonlyArray<Retry> =>
    isDelivered && delivery.round === 1 && delivery.attempts === 0
      ? []
      : [{
        ...delivery,
        attempts: delivery.attempts + 1,
        state: isDelivered ? "delivered" : "open",
        nextAttemptAt: isDelivered ? null : now + 60_000,
        createdAt: delivery.dueAt
      }])
  const attempts = deliveries.map(({ attempts, event, round }) =>
    ({ event, round, attempt: attempts + 1, startedAt: now, durationMillis: 1, result: { status, answer: "" } }))
  const cursor = deliveries.reduce((last, { event }) => event > last ? event : last, 0n)
  const recorded = { ...lease, cursor, revision: 1, breaker: closedBreaker, attempts, retries, isRepeated: false }
  return yield* record([{ ...recorded, ...changes }], now)
})

/** Gives a lease up. */
export const releaseOf = (lease: EndpointLease) =>
  Effect.flatMap(Deliveries, ({ release }) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => release([lease], now)))
