import * as Database from "@card-rewards/core/Database"
import { insertedSegments, segmentColumns } from "@card-rewards/core/Processing/Segments"
import { laneOf } from "@card-rewards/domain/Lane"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Request } from "./Load.ts"
import type { EventKey } from "./peers/EventWork.ts"
import type { SpendEvent } from "./peers/SpendEvent.ts"
import { integratorOf, keyOf, userOf } from "./Seed.ts"

const { columns } = Database

/** The integrators and users whose events are made, one user after the other. */
export interface Senders {
  readonly integrators: number
  readonly users: number
  /** The index of the first of the users in {@link store}; 0 where absent. */
  readonly firstUser?: number
}

/**
 * Returns a new clearing at each call, of the users in turn; `prefix` begins its transaction id. With `every` only
 * every n-th user takes part.
 */
export const clearings = ({ integrators, users }: Senders, prefix: string, every = 1): () => SpendEvent => {
  let made = 0
  return () => {
    const user = made++ * every % users
    return clearing(integrators, user, `${prefix}-${made}`)
  }
}

/** A clearing of 123.45 USD now, by the index of its user. */
export const clearing = (integrators: number, user: number, externalTransactionId: string): SpendEvent => ({
  kind: "clearing",
  integratorId: integratorOf(user % integrators),
  userId: userOf(user),
  externalTransactionId,
  amount: { currency: "USD", amount: "12345" },
  merchant: { descriptor: "Corner shop", mcc: "5411", mid: "M-12345", country: "US" },
  occurredAt: new Date().toISOString()
})

/** {@link clearings} as requests. `onMade` is called with each event before its request is sent. */
export const requests = (
  senders: Senders,
  prefix: string,
  every?: number,
  onMade?: (event: SpendEvent) => void
): () => Request => {
  const next = clearings(senders, prefix, every)
  const headers = new Map(Array.from({ length: senders.integrators }, (_, index) => [
    `${integratorOf(index)}`,
    headersOf(index)
  ]))
  return () => {
    const event = next()
    onMade?.(event)
    return post(event, headers.get(event.integratorId) ?? [])
  }
}

/** Clearings of one integrator's users in turn as requests of so many each. */
export const batches = (users: number, prefix: string, size: number): () => Request => {
  const next = clearings({ integrators: 1, users }, prefix)
  const headers = headersOf(0)
  return () => ({
    method: "POST",
    path: "/v1/spend-events/batch",
    headers,
    body: JSON.stringify({ events: Array.from({ length: size }, next) })
  })
}

/** The headers of a post, by the index of its integrator. */
export const headersOf = (integrator: number): Array<string> =>
  ["content-type", "application/json", "x-api-key", keyOf(integrator)]

/** The request that posts a spend event. */
export const post = (event: SpendEvent, headers: Array<string>): Request => ({
  method: "POST",
  path: "/v1/spend-events",
  headers,
  body: JSON.stringify(event)
})

/** Which events {@link store} stores. */
export interface Stored {
  /** Clearings where absent. */
  readonly kind?: "clearing" | "authorization"
  /** The number of the first one; 0 where absent. */
  readonly from?: number
}

/** Stores events and queues them for processing, in one statement: of the users in turn. */
export const store = Effect.fn("SpendEvents.store")(function*(
  { firstUser = 0, integrators, users }: Senders,
  prefix: string,
  count: number,
  { from = 0, kind = "clearing" }: Stored = {}
) {
  const sql = yield* SqlClient.SqlClient
  const indexes = Array.from({ length: users }, (_, index) => firstUser + index)
  yield* sql`
    WITH senders AS (
      SELECT * FROM unnest(${columns.text(indexes.map((user) => integratorOf(user % integrators)))},
        ${columns.text(indexes.map(userOf))}, ${columns.int2(indexes.map((user) => laneOf(userOf(user))))})
        WITH ORDINALITY AS t(integrator_id, user_id, lane, ordinality)
    ), stored AS (
      INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
        cents, descriptor, mcc, mid, country, occurred_at)
      SELECT integrator_id, user_id, ${kind}, ${prefix} || '-' || n, lane, now(), 'USD', 12345, 'Corner shop',
        '5411', 'M-12345', 'US', now() - interval '1 minute'
      FROM generate_series(${Database.value.int4(from)}, ${Database.value.int4(from + count - 1)}) AS n
      JOIN senders ON ordinality = n % ${Database.value.int4(users)} + 1
      ORDER BY n
      RETURNING integrator_id, lane, arrival, user_id, kind, external_transaction_id
    )
    INSERT INTO spend_event_queue (${sql.literal(segmentColumns)}) ${insertedSegments("stored", undefined, [count])}`
})

/** Events that one statement stores within its timeout. */
const batchSize = 50_000

/** {@link store} for any number of events, in several statements. */
export const storeMany = Effect.fn("SpendEvents.storeMany")(function*(
  senders: Senders,
  prefix: string,
  count: number,
  kind?: Stored["kind"]
) {
  for (let from = 0; from < count; from += batchSize) {
    yield* store(senders, prefix, Math.min(batchSize, count - from), { from, ...(kind && { kind }) })
  }
})

/** The keys of the events that {@link store} adds. */
export const keysOf = ({ integrators, users }: Senders, prefix: string, count: number): ReadonlyArray<EventKey> =>
  Array.from({ length: count }, (_, n) => ({
    integratorId: integratorOf(n % users % integrators),
    userId: userOf(n % users),
    externalTransactionId: `${prefix}-${n}`
  }))
