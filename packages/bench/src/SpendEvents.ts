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

/** Events of one insert of the service's ingest, which decides how many of them share a segment of the queue. */
const insertSize = 500

/** Stores events and queues them for processing, of the users in turn: inserts as those of ingest, in one commit. */
export const store = Effect.fn("SpendEvents.store")(function*(
  senders: Senders,
  prefix: string,
  count: number,
  stored: Stored = {}
) {
  const sql = yield* SqlClient.SqlClient
  const { from = 0, kind = "clearing" } = stored
  yield* sql.withTransaction(Effect.gen(function*() {
    for (let first = from; first < from + count; first += insertSize) {
      yield* insert(senders, prefix, kind, first, Math.min(insertSize, from + count - first))
    }
  }))
})

const insert = Effect.fnUntraced(function*(
  { firstUser = 0, integrators, users }: Senders,
  prefix: string,
  kind: string,
  first: number,
  count: number
) {
  const sql = yield* SqlClient.SqlClient
  const events = Array.from({ length: count }, (_, index) => {
    const user = firstUser + (first + index) % users
    return { integratorId: integratorOf(user % integrators), userId: userOf(user), id: `${prefix}-${first + index}` }
  })
  const lanes = events.map(({ userId }) => laneOf(userId))
  const perLane = Map.groupBy(events.keys(), (index) => `${events[index]?.integratorId} ${lanes[index]}`)
  yield* sql`
    WITH stored AS (
      INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
        cents, descriptor, mcc, mid, country, occurred_at)
      SELECT integrator_id, user_id, ${kind}, id, lane, now(), 'USD', 12345, 'Corner shop', '5411', 'M-12345', 'US',
        now() - interval '1 minute'
      FROM unnest(${columns.text(events.map(({ integratorId }) => integratorId))},
        ${columns.text(events.map(({ userId }) => userId))}, ${columns.text(events.map(({ id }) => id))},
        ${columns.int2(lanes)}) WITH ORDINALITY AS t(integrator_id, user_id, id, lane, n)
      ORDER BY n
      RETURNING integrator_id, lane, arrival, user_id, kind, external_transaction_id
    )
    INSERT INTO spend_event_queue (${sql.literal(segmentColumns)})
    ${insertedSegments("stored", undefined, Math.max(...Array.from(perLane.values(), ({ length }) => length)))}`
})

/** Events of one commit of {@link storeMany}. */
const commitSize = 50_000

/** {@link store} for any number of events, in several commits. */
export const storeMany = Effect.fn("SpendEvents.storeMany")(function*(
  senders: Senders,
  prefix: string,
  count: number,
  kind?: Stored["kind"]
) {
  for (let from = 0; from < count; from += commitSize) {
    yield* store(senders, prefix, Math.min(commitSize, count - from), { from, ...(kind && { kind }) })
  }
})

/** The keys of the events that {@link store} adds. */
export const keysOf = ({ integrators, users }: Senders, prefix: string, count: number): ReadonlyArray<EventKey> =>
  Array.from({ length: count }, (_, n) => ({
    integratorId: integratorOf(n % users % integrators),
    userId: userOf(n % users),
    externalTransactionId: `${prefix}-${n}`
  }))
