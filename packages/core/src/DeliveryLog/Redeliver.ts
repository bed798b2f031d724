import type { Delivery } from "@card-rewards/domain/Delivery"
import { NotFound } from "@card-rewards/domain/Errors"
import { WebhookEvent } from "@card-rewards/domain/Event"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { Clock, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { equalWithoutIndex } from "../Database/PlannerHints.ts"
import * as Tracing from "../Tracing.ts"

/** What may be claimed behind the fresh delivery looks again after this, and finds it. */
const setBackMillis = 1_000

/** A fresh delivery of the event, inside the caller's transaction, which holds the endpoint's lock. */
export const redeliverIn = Effect.fnUntraced(function*(integratorId: IntegratorId, generation: number, id: string) {
  const { body, event, rounds } = yield* find(integratorId, id)
  const now = yield* Clock.currentTimeMillis
  const before = yield* lockPending(integratorId, generation, event)
  const answer = (createdAt: number, nextAttemptAt: number): Delivery => ({
    eventId: id,
    kind: body.kind,
    state: "pending",
    createdAt: instant(createdAt),
    nextAttemptAt: instant(nextAttemptAt),
    attempts: []
  })
  // what has not been tried yet is as fresh as can be, so a repeated request makes no second one
  if (before?.attempts === 0) return answer(before.createdAt, before.nextAttemptAt)
  if (before !== undefined) yield* cancel(integratorId, event, before.round)
  // an attempt that may be under way now is over when its claim is
  const dueAt = Math.max(now, before?.claimedUntil ?? now)
  const reward = yield* rewardOf(integratorId, body)
  if (reward !== undefined) yield* setBackFollowers(integratorId, generation, reward, event, now)
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO deliveries
      (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at, traceparent)
    VALUES (${integratorId}, ${value.int8(event)}, ${value.int4(rounds + 1)}, ${value.int4(generation)},
      ${value.int8(reward)}, 'pending', ${value.timestamptz(now)}, ${value.timestamptz(dueAt)},
      ${value.text(yield* Tracing.traceparent)})`
  return answer(now, dueAt)
})

const decode = Schema.decodeSync(Schema.fromJsonString(WebhookEvent))

/** The event and how many deliveries it has had. Its number stands in its id. */
const find = Effect.fnUntraced(function*(integratorId: IntegratorId, id: string) {
  const number = /^evt_[0-9a-f]{16}([0-9a-f]{12})$/.exec(id)?.[1]
  if (number === undefined) return yield* NotFound.of("event", id)
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ event: bigint; body: string; rounds: number }>`
    SELECT e.event, e.body, (SELECT coalesce(max(d.round), 0) FROM deliveries d
      WHERE d.integrator_id = e.integrator_id AND d.event = e.event) AS rounds
    FROM events e WHERE e.integrator_id = ${integratorId} AND e.event = ${value.int8(BigInt(`0x${number}`))}
      AND e.event_id = ${id}`
  return row === undefined ? yield* NotFound.of("event", id) : { ...row, body: decode(row.body) }
})

/** Of an event at most one delivery to an endpoint is pending. */
const lockPending = Effect.fnUntraced(function*(integratorId: IntegratorId, generation: number, event: bigint) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{
    round: number
    attempts: number
    createdAt: number
    nextAttemptAt: number
    claimedUntil: number | null
  }>`
    SELECT round, attempts, created_at, next_attempt_at, claimed_until FROM deliveries
    WHERE integrator_id = ${integratorId} AND event = ${value.int8(event)} AND next_attempt_at IS NOT NULL
      AND ${equalWithoutIndex("generation", value.int4(generation))} FOR UPDATE`
  return row
})

const cancel = Effect.fnUntraced(function*(integratorId: IntegratorId, event: bigint, round: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE deliveries SET state = 'cancelled', next_attempt_at = NULL, claimed_until = NULL
    WHERE integrator_id = ${integratorId} AND event = ${value.int8(event)} AND round = ${value.int4(round)}`
})

/** The order of creation of the event's reward: what keeps its events in order. */
const rewardOf = Effect.fnUntraced(function*(integratorId: IntegratorId, event: WebhookEvent) {
  if (!("transaction" in event.data)) return undefined
  const { programId, transaction, userId } = event.data
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ creation: bigint }>`
    SELECT creation FROM rewards WHERE integrator_id = ${integratorId} AND user_id = ${userId}
      AND kind = ${transaction.kind} AND external_transaction_id = ${transaction.externalTransactionId}
      AND program_id = ${programId}`
  return row?.creation
})

/**
 * Later events of the reward that nobody has claimed are not due until the fresh delivery can be seen: who is about to
 * claim one of them at this moment looks at it again, and who comes later sees the claim of the other.
 */
const setBackFollowers = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  generation: number,
  reward: bigint,
  event: bigint,
  now: number
) {
  const sql = yield* SqlClient.SqlClient
  const until = value.timestamptz(now + setBackMillis)
  yield* sql`UPDATE deliveries SET next_attempt_at = ${until}
    WHERE integrator_id = ${integratorId} AND reward = ${value.int8(reward)}
      AND ${equalWithoutIndex("generation", value.int4(generation))} AND event > ${value.int8(event)}
      AND next_attempt_at < ${until}
      AND (claimed_until IS NULL OR claimed_until <= ${value.timestamptz(now)})`
})
