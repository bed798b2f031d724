import { maxAnswerBytes } from "@card-rewards/domain/Delivery"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { transaction, value, withinRequestDeadline } from "../Database.ts"
import { expectFewRows, joinByKey } from "../Database/PlannerHints.ts"
import { columnList, int4, int8, nullable, type Row, text, timestamptz, type Written } from "../Database/Table.ts"
import type { EndpointRecord, Recorded, Retry } from "./Delivery.ts"
import { type HeldRow, leaseColumns, lockHeld, outcomeOf, selectChanged, selectHeld } from "./HeldEndpoints.ts"
import { holdBack, isFirstOpen, openFirst } from "./Order.ts"

/**
 * Stores what became of deliveries. Where all were delivered at their first attempt, one statement appends the attempts
 * and moves the cursors; exceptions need a transaction. It never waits for a locked endpoint, which would hold up all
 * others: that one's record is `busy`.
 */
export const record = (
  records: ReadonlyArray<EndpointRecord>,
  now: number
): Effect.Effect<Recorded, Unavailable, SqlClient.SqlClient> =>
  records.every(({ retries }) => retries.length === 0)
    ? withinRequestDeadline(store(records))
    : transaction(Effect.tap(store(records), ({ stored }) =>
      storeRetries(records.filter(({ integratorId }) => stored.has(integratorId)), now)))

const endpointColumns = columnList({
  ...leaseColumns.columns,
  cursor: int8(),
  revision: int4(),
  failures: int4(),
  probe_at: nullable(timestamptz()),
  replay: nullable(int4()),
  replay_cursor: nullable(int8())
})

const attemptColumns = columnList({
  integrator_id: text(),
  event: int8(),
  round: int4(),
  attempt: int4(),
  at: timestamptz(),
  duration_millis: int4(),
  status: nullable(int4()),
  error: nullable(text()),
  answer: nullable(text())
})

const endpointOf = ({ breaker, replay, ...record }: EndpointRecord): Written<typeof endpointColumns> =>
  ({ ...record, ...breaker, replay: replay?.round, replayCursor: replay?.cursor })

const attemptsOf = ({ attempts, integratorId }: EndpointRecord): ReadonlyArray<Written<typeof attemptColumns>> =>
  attempts.map(({ result, startedAt, ...attempt }) => ({
    ...attempt,
    integratorId,
    at: startedAt,
    // the connector reads no more bytes, which have no more characters
    ...("status" in result ? { status: result.status, answer: result.answer.slice(0, maxAnswerBytes) } : result)
  }))

const store = Effect.fnUntraced(function*(records: ReadonlyArray<EndpointRecord>) {
  if (records.length === 0) return { stored: new Set<string>(), busy: new Set<string>() }
  const sql = yield* SqlClient.SqlClient
  // finds each row by its key, which only a record that is given again needs: some of its attempts may be stored
  const onConflict = records.some(({ isRepeated }) => isRepeated) ? "ON CONFLICT DO NOTHING" : ""
  const rows = yield* sql<HeldRow>`
    WITH held AS (${selectHeld(sql, endpointColumns.unnest(records.map(endpointOf)))}), changed AS (
      UPDATE webhook_endpoints e SET cursor = t.cursor,
        failures = CASE e.revision WHEN t.revision THEN t.failures ELSE e.failures END,
        probe_at = CASE e.revision WHEN t.revision THEN t.probe_at ELSE e.probe_at END,
        replay = CASE WHEN t.replay = e.replay AND t.replay_cursor IS NULL THEN NULL ELSE e.replay END,
        replay_cursor = CASE t.replay WHEN e.replay THEN t.replay_cursor ELSE e.replay_cursor END
      FROM (${lockHeld()}) t WHERE e.ctid = t.ctid AND ${expectFewRows}
      RETURNING e.integrator_id
    ), attempted AS (
      INSERT INTO delivery_attempts (${attemptColumns.names})
      SELECT ${attemptColumns.of("t")} FROM ${attemptColumns.unnest(records.flatMap(attemptsOf))}
      JOIN changed USING (integrator_id) ${sql.literal(onConflict)}
    ) ${selectChanged}`
  const { busy, changed } = outcomeOf(rows)
  return { stored: changed, busy }
})

const retryColumns = columnList({
  integrator_id: text(),
  generation: int4(),
  event: int8(),
  round: int4(),
  reward: nullable(int8()),
  state: text<Retry["state"]>(),
  attempts: int4(),
  next_attempt_at: nullable(timestamptz()),
  revision: int4(),
  created_at: timestamptz(),
  traceparent: nullable(text())
})
const retryKey = retryColumns.pick("integrator_id", "event", "round")

/** Inside the caller's transaction, which has locked the endpoints. What is not open any more stays as it is. */
const storeRetries = Effect.fnUntraced(function*(records: ReadonlyArray<EndpointRecord>, now: number) {
  const rows = records.flatMap(({ generation, integratorId, retries, revision }) =>
    retries.map((retry) => ({ ...retry, integratorId, generation, revision }))
  )
  const sql = yield* SqlClient.SqlClient
  const isGone = ({ round, state }: Retry) => state === "delivered" && round === 1
  const gone = rows.filter(isGone)
  const kept = rows.filter((row) => !isGone(row))
  if (gone.length > 0) {
    yield* sql`DELETE FROM retries r USING ${retryKey.unnest(gone)}
      ${joinByKey("retries", "r", retryKey)} AND r.state = 'open'`
  }
  if (kept.length > 0) {
    const stored = yield* sql<Row<typeof retryColumns>>`
      INSERT INTO retries AS r (${retryColumns.names})
      SELECT t.integrator_id, t.generation, t.event, t.round, t.reward, t.state, t.attempts,
        CASE WHEN ${isFirstOpen("t", "t.generation")} THEN t.next_attempt_at END,
        t.revision, t.created_at, t.traceparent
      FROM ${retryColumns.unnest(kept)}
      ON CONFLICT (integrator_id, event, round) DO UPDATE SET state = excluded.state,
        attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, revision = excluded.revision
      WHERE r.state = 'open'
      RETURNING ${retryColumns.names}`
    // a later round of an event may come before retries of its reward; a first one never does
    yield* holdBack(stored.filter(({ reward, round, state }) => round > 1 && reward !== null && state === "open"))
  }
  const moved = rows.filter(({ nextAttemptAt, reward }) => nextAttemptAt === null && reward !== null)
  yield* openFirst(moved, value.timestamptz(now))
})
