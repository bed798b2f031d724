import { laneOf } from "@card-rewards/domain/Lane"
import { Effect } from "effect"
import { type Attacker, processed } from "./Attacker.ts"
import { iso } from "../World.ts"

/** Rows of one statement. */
const batch = 10_000

/** The attacker's user of a number from 0. */
export const userOf = (index: number): string => `user-${`${index}`.padStart(6, "0")}`

/** Enrolls `count` users as the api would, long ago. */
export const enroll = Effect.fnUntraced(function*({ integratorId, sql }: Attacker, count: number) {
  for (let first = 0; first < count; first += batch) {
    const users = JSON.stringify(Array.from({ length: Math.min(batch, count - first) }, (_, index) =>
      userOf(first + index)))
    yield* sql`INSERT INTO users (integrator_id, user_id, enrolled_at, updated_at)
      SELECT ${integratorId}, user_id, '2020-01-01', '2020-01-01'
      FROM jsonb_array_elements_text(${users}::text::jsonb) AS u(user_id)`
    yield* sql`INSERT INTO user_attributes (integrator_id, user_id, arrival, stored_at)
      SELECT ${integratorId}, user_id, nextval('arrivals'), '2020-01-01'
      FROM jsonb_array_elements_text(${users}::text::jsonb) AS u(user_id)`
  }
}, Effect.orDie)

/** Spend events to be stored: `count` of them, the users in turn; clearings of a dollar unless told otherwise. */
export interface Events {
  readonly kind?: "clearing" | "refund"
  readonly count: number
  readonly users: number
  readonly occurredAt: number
  /** Transaction ids are this and a number from 0; a refund is of the clearing of the same number in `refundOf`. */
  readonly prefix?: string
  readonly refundOf?: string
  readonly cents?: number
}

/**
 * Stores spend events as the api does, without the cost of a request for each, and waits until the worker has processed
 * them: rewards, money and events are the service's own work.
 */
export const store = Effect.fnUntraced(function*(attacker: Attacker, events: Events) {
  const { integratorId, sql } = attacker
  const { cents = 100, count, kind = "clearing", occurredAt, prefix = "c-", refundOf, users } = events
  for (let first = 0; first < count; first += batch) {
    const purchases = Array.from({ length: Math.min(batch, count - first) }, (_, index) => {
      const userId = userOf((first + index) % users)
      return { n: first + index, userId, lane: laneOf(userId) }
    })
    yield* sql`WITH stored AS (
      INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
        cents, descriptor, mcc, occurred_at, original_id)
      SELECT ${integratorId}, "userId", ${kind}, ${prefix}::text || n, lane, ${iso(occurredAt)}::timestamptz, 'USD',
        ${`${cents}`}::text::bigint, 'Shop', '5411', ${iso(occurredAt)}::timestamptz, ${refundOf ?? null}::text || n
      FROM jsonb_to_recordset(${JSON.stringify(purchases)}::text::jsonb) AS p(n int, "userId" text, lane smallint)
      RETURNING integrator_id, lane, arrival, user_id, kind, external_transaction_id
    ) INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
      SELECT integrator_id, lane, arrival, ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id] FROM stored`
  }
  yield* processed(attacker)
}, Effect.orDie)
