import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { backgroundStep, value } from "../Database.ts"
import * as Metrics from "../Metrics.ts"
import { isOwned } from "../Slots.ts"

/**
 * Why an integrator is in quarantine: more rewards are due than one transaction applies (`behind`), its part of a batch
 * fails (`failing`), or another session has locked its rows (`locked`).
 */
export type Reason = "behind" | "failing" | "locked"

/** This process's exclusive right, until it expires, to process the events of an integrator in quarantine. */
export interface Lease {
  readonly integratorId: IntegratorId
  readonly reason: Reason
  readonly failures: number
  /**
   * When the lease expires (real time, milliseconds). It is also the fencing token: only the retry whose lease is
   * stored can record its result.
   */
  readonly leasedUntil: number
}

/** Why the processing of an integrator failed. Of the error only the message is stored, at most 1,000 characters. */
export interface Failure {
  readonly reason: Reason
  readonly error: unknown
}

/**
 * Longer than a retry takes: two transactions and two loads of program versions, each within the deadline of a step,
 * which grows to 20 s. When the lease of a killed worker expires, another worker may retry the integrator.
 */
const leaseMillis = 90_000

/**
 * No pause or lease is as long, also by another worker's clock that is minutes ahead of this one. A retry that is due
 * even later was stored before the clock was set back: it is due now.
 */
const maxAheadMillis = 600_000

const firstPauseMillis = 250
const maxPauseMillis = 30_000

const maxErrorLength = 1_000

/** The pause before the next retry after so many failures: 250 ms, doubling up to 30 s. */
const pauseMillisAfter = (failures: number): number =>
  Math.min(maxPauseMillis, firstPauseMillis * 2 ** Math.min(failures - 1, 16))

/** The message of an error, without stack and without the parameters of a statement. */
const errorText = (error: unknown): string => {
  const message = error instanceof Error ? messageOf(error) : String(error)
  // PostgreSQL cannot store NUL; spreading by code points keeps surrogate pairs whole
  return [...message.replaceAll("\0", "")].slice(0, maxErrorLength).join("")
}

/** The message of the innermost cause: of an SQL error that is PostgreSQL's own message. */
const messageOf = (error: Error): string =>
  error.cause instanceof Error && error.cause.message !== "" ? messageOf(error.cause) : error.message || error.name

const failures = Metrics.counter(
  "card_rewards.processing.failures",
  "{failure}",
  "Failures to process an integrator's stored events, by reason"
)

const countFailure = (reason: Reason) => Metrics.afterCommit(() => Metrics.add(failures, 1, { reason }))

/** Puts an integrator into quarantine. One that is in quarantine already keeps its row. */
export const add = Effect.fnUntraced(function*(integratorId: string, { error: cause, reason }: Failure) {
  const error = errorText(cause)
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  // an integrator that is behind can catch up at once: its retries do not depend on a change elsewhere
  const pauseMillis = reason === "behind" ? 0 : pauseMillisAfter(1)
  const rows = yield* backgroundStep(sql`
    INSERT INTO quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
    SELECT i.integrator_id, ${reason}, ${error}, 1, ${value.timestamptz(now)}, ${value.timestamptz(now + pauseMillis)}
    FROM integrators i WHERE i.integrator_id = ${integratorId} AND ${isOwned("i.integrator_id")}
    ON CONFLICT DO NOTHING RETURNING integrator_id`)
  if (rows.length === 0) return
  yield* countFailure(reason)
  yield* Effect.logWarning(
    `Events of integrator ${integratorId} are in quarantine and processed separately (${reason}): ${error}; ` +
      `next retry in ${pauseMillis} ms`
  )
})

/** Leases the integrator whose retry has been due the longest; undefined where none is due. */
export const lease = Effect.fnUntraced(function*() {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const rows = yield* backgroundStep(sql<Lease>`
    UPDATE quarantine SET next_attempt_at = ${value.timestamptz(now + leaseMillis)}
    WHERE integrator_id = (
      SELECT integrator_id FROM quarantine
      WHERE ${isOwned("integrator_id")} AND (
        next_attempt_at <= ${value.timestamptz(now)} OR next_attempt_at > ${value.timestamptz(now + maxAheadMillis)}
      )
      ORDER BY next_attempt_at, integrator_id LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING integrator_id, reason, failures, next_attempt_at AS leased_until`)
  return rows[0]
})

/**
 * Ends the quarantine after a successful retry: the integrator returns to joint batches. As {@link continueLater} and
 * {@link fail} it returns whether the lease has ended; while a move of the slot to another cell goes on, it cannot.
 */
export const release = Effect.fnUntraced(function*({ failures, integratorId, leasedUntil }: Lease) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* backgroundStep(sql`
    DELETE FROM quarantine WHERE integrator_id = ${integratorId} AND next_attempt_at = ${value.timestamptz(leasedUntil)}
      AND ${isOwned("integrator_id")}
    RETURNING integrator_id`)
  if (rows.length === 0) return false
  yield* Effect.logInfo(
    `Events of integrator ${integratorId} are processed together with all others again, after ${failures} failures`
  )
  return true
})

/** Ends a retry that made progress and has more to do. The next one follows after all retries that are due now. */
export const continueLater = Effect.fnUntraced(function*({ integratorId, leasedUntil }: Lease) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const rows = yield* backgroundStep(sql`
    UPDATE quarantine SET next_attempt_at = ${value.timestamptz(now)}
    WHERE integrator_id = ${integratorId} AND next_attempt_at = ${value.timestamptz(leasedUntil)}
      AND ${isOwned("integrator_id")}
    RETURNING integrator_id`)
  return rows.length > 0
})

/** Records a failed retry and doubles the pause before the next one. */
export const fail = Effect.fnUntraced(function*(lease: Lease, { error: cause, reason }: Failure) {
  const error = errorText(cause)
  const sql = yield* SqlClient.SqlClient
  const { failures, integratorId, leasedUntil } = lease
  const now = yield* Clock.currentTimeMillis
  const pauseMillis = pauseMillisAfter(failures + 1)
  const rows = yield* backgroundStep(sql`
    UPDATE quarantine SET reason = ${reason}, error = ${error}, failures = failures + 1,
      next_attempt_at = ${value.timestamptz(now + pauseMillis)}
    WHERE integrator_id = ${integratorId} AND next_attempt_at = ${value.timestamptz(leasedUntil)}
      AND ${isOwned("integrator_id")}
    RETURNING integrator_id`)
  if (rows.length === 0) return false
  yield* countFailure(reason)
  yield* Effect.logWarning(
    `Events of integrator ${integratorId} cannot be processed (${reason}, ${failures + 1} failures): ${error}; ` +
      `next retry in ${pauseMillis} ms`
  )
  return true
})
