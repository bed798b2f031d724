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
    const users = Array.from({ length: Math.min(batch, count - first) }, (_, index) => {
      const userId = userOf(first + index)
      return { userId, lane: laneOf(userId) }
    })
    yield* sql`INSERT INTO users (integrator_id, user_id, lane, enrolled_at, updated_at)
      SELECT ${integratorId}, "userId", lane, '2020-01-01', '2020-01-01'
      FROM jsonb_to_recordset(${JSON.stringify(users)}::text::jsonb) AS u("userId" text, lane smallint)`
    yield* sql`INSERT INTO user_attributes (integrator_id, user_id, arrival, stored_at)
      SELECT ${integratorId}, "userId", nextval('arrivals'), '2020-01-01'
      FROM jsonb_to_recordset(${JSON.stringify(users)}::text::jsonb) AS u("userId" text)`
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
    const last = Math.min(first + batch, count) - 1
    yield* sql`WITH stored AS (
      INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
        cents, descriptor, mcc, occurred_at, original_id)
      SELECT u.integrator_id, u.user_id, ${kind}, ${prefix}::text || n, u.lane, ${iso(occurredAt)}::timestamptz, 'USD',
        ${`${cents}`}::text::bigint, 'Shop', '5411', ${iso(occurredAt)}::timestamptz, ${refundOf ?? null}::text || n
      FROM generate_series(${`${first}`}::text::int, ${`${last}`}::text::int) AS n
      JOIN users u ON u.integrator_id = ${integratorId}
        AND u.user_id = 'user-' || lpad((n % ${`${users}`}::text::int)::text, 6, '0')
      RETURNING integrator_id, lane, arrival, user_id, kind, external_transaction_id
    ) INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
      SELECT integrator_id, lane, arrival, ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id] FROM stored`
  }
  yield* processed(attacker)
}, Effect.orDie)
