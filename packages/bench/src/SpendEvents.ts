import * as Database from "@card-rewards/core/Database"
import { laneOf } from "@card-rewards/domain/Lane"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Request } from "./Load.ts"
import type { EventKey } from "./peers/EventWork.ts"
import type { SpendEvent } from "./peers/SpendEvent.ts"
import { integratorOf, keyOf, userOf } from "./Seed.ts"

const { columns } = Database

/** Whose events: they go round the users, and with them round the integrators. */
export interface Senders {
  readonly integrators: number
  readonly users: number
}

/**
 * Clearings of the users in turn, each a new one; `prefix` keeps those of several sources apart. With `every` only the
 * first of so many users takes part.
 */
export const clearings = ({ integrators, users }: Senders, prefix: string, every = 1): () => SpendEvent => {
  let made = 0
  return () => {
    const user = made++ * every % users
    return clearing(integrators, user, `${prefix}-${made}`)
  }
}

/** A clearing of the user of a number from 0. */
export const clearing = (integrators: number, user: number, externalTransactionId: string): SpendEvent => ({
  kind: "clearing",
  integratorId: integratorOf(user % integrators),
  userId: userOf(user),
  externalTransactionId,
  amount: { currency: "USD", amount: "12345" },
  merchant: { descriptor: "Corner shop", mcc: "5411", mid: "M-12345", country: "US" },
  occurredAt: new Date().toISOString()
})

/** {@link clearings} as they are posted. */
export const requests = (senders: Senders, prefix: string, every?: number): () => Request => {
  const next = clearings(senders, prefix, every)
  const headers = new Map(Array.from({ length: senders.integrators }, (_, index) => [
    `${integratorOf(index)}`,
    headersOf(index)
  ]))
  return () => {
    const event = next()
    return post(event, headers.get(event.integratorId) ?? [])
  }
}

/** Headers of a post by the integrator of a number from 0. */
export const headersOf = (integrator: number): Array<string> =>
  ["content-type", "application/json", "x-api-key", keyOf(integrator)]

/** A spend event as it is posted. */
export const post = (event: SpendEvent, headers: Array<string>): Request => ({
  method: "POST",
  path: "/v1/spend-events",
  headers,
  body: JSON.stringify(event)
})

/** Stores clearings that wait for processing, all at once: those of the users in turn, after the first `from`. */
export const store = Effect.fn("SpendEvents.store")(function*(
  { integrators, users }: Senders,
  prefix: string,
  count: number,
  from = 0
) {
  const sql = yield* SqlClient.SqlClient
  const everyone = Array.from({ length: users }, (_, index) => index)
  yield* sql`
    WITH people AS (
      SELECT * FROM unnest(${columns.text(everyone.map((user) => integratorOf(user % integrators)))},
        ${columns.text(everyone.map(userOf))}, ${columns.int2(everyone.map((user) => laneOf(userOf(user))))})
        WITH ORDINALITY AS t(integrator_id, user_id, lane, place)
    ), stored AS (
      INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
        cents, descriptor, mcc, mid, country, occurred_at)
      SELECT integrator_id, user_id, 'clearing', ${prefix} || '-' || n, lane, now(), 'USD', 12345, 'Corner shop',
        '5411', 'M-12345', 'US', now() - interval '1 minute'
      FROM generate_series(${Database.value.int4(from)}, ${Database.value.int4(from + count - 1)}) AS n
      JOIN people ON place = n % ${Database.value.int4(users)} + 1
      ORDER BY n
      RETURNING integrator_id, lane, arrival, user_id, kind, external_transaction_id
    )
    INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_id, kind, external_transaction_id)
    SELECT integrator_id, lane, arrival, user_id, kind, external_transaction_id FROM stored`
})

/** As many as one statement stores within its time-out. */
const part = 50_000

/** {@link store} for any number, part by part. */
export const storeMany = Effect.fn("SpendEvents.storeMany")(function*(senders: Senders, prefix: string, count: number) {
  for (let from = 0; from < count; from += part) {
    yield* store(senders, prefix, Math.min(part, count - from), from)
  }
})

/** The events that {@link store} makes. */
export const keysOf = ({ integrators, users }: Senders, prefix: string, count: number): ReadonlyArray<EventKey> =>
  Array.from({ length: count }, (_, n) => ({
    integratorId: integratorOf(n % users % integrators),
    userId: userOf(n % users),
    externalTransactionId: `${prefix}-${n}`
  }))
