import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import { laneHeads } from "./Processing/LaneHeads.ts"

/**
 * Why an integrator is in quarantine: more rewards are due than one transaction applies (`behind`), its part of a batch
 * fails (`failing`), or another session has locked its rows (`locked`).
 */
export const reasons = ["behind", "failing", "locked"] as const
/** One of {@link reasons}. */
export type Reason = typeof reasons[number]

/** The backlog of an integrator. Counts stop at {@link maxCount}. */
export interface IntegratorBacklog {
  readonly integratorId: IntegratorId
  /** Events in the queue. */
  readonly stored: number
  /** Waiting events. */
  readonly waiting: number
  /** Age of the oldest queued event; absent where there is none, or its lane is beyond {@link maxLanes}. */
  readonly oldestStoredMillis?: number
  /** Present while the integrator is in quarantine: its events are processed separately and retried after pauses. */
  readonly quarantine?: QuarantineState
}

/** Why and since when an integrator is in quarantine. Times are real, in milliseconds. */
export interface QuarantineState {
  readonly reason: Reason
  readonly error: string
  /** Consecutive failures. */
  readonly failures: number
  readonly since: number
  /** When the next retry is due, or the lease of the present one expires. */
  readonly nextAttemptAt: number
}

/** The maximum number of integrators that {@link Quarantine} lists. */
export const maxListed = 100

/** The maximum of each count of a listed integrator: an exact larger number would be slow to compute and of no use. */
export const maxCount = 10_000

/** The maximum number of lanes with queued events that a list covers, in the order of their keys. */
export const maxLanes = 10_000

/** Integrators whose events are processed separately after a failure, so that it affects no other integrator. */
export class Quarantine extends Context.Service<Quarantine, {
  /**
   * Integrators in quarantine, by how long they have been there, then other integrators with stored events, by the age
   * of their oldest event; {@link maxListed} in all. The limits above bound the cost, for any number of integrators and
   * events.
   */
  readonly list: Effect.Effect<ReadonlyArray<IntegratorBacklog>, Unavailable>
}>()("@card-rewards/core/Quarantine") {
  static readonly layer: Layer.Layer<Quarantine, never, SqlClient.SqlClient> = Layer.effect(
    Quarantine,
    Effect.map(SqlClient.SqlClient, (sql) =>
      Quarantine.of({
        list: Database.withinRequestDeadline(list).pipe(
          Effect.provideService(SqlClient.SqlClient, sql),
          Effect.withSpan("Quarantine.list")
        )
      }))
  )
}

type Row = {
  readonly integratorId: IntegratorId
  readonly stored: number
  readonly waiting: number
  readonly storedAt: number | null
} & (QuarantineState | { readonly reason: null })

const list = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const rows = yield* sql<Row>`
    WITH queued AS (
      SELECT integrator_id, min(stored_at) AS stored_at FROM (${sql.literal(laneHeads(maxLanes))}) head
      GROUP BY integrator_id
    ), listed AS (
      SELECT integrator_id, h.stored_at, q.reason, q.error, q.failures, q.since, q.next_attempt_at
      FROM queued h FULL JOIN quarantine q USING (integrator_id)
      ORDER BY q.since NULLS LAST, h.stored_at, integrator_id LIMIT ${value.int4(maxListed)}
    )
    SELECT l.*, s.stored, w.waiting FROM listed l
    CROSS JOIN LATERAL (
      SELECT count(*)::int4 AS stored FROM (
        SELECT FROM spend_event_queue q WHERE q.integrator_id = l.integrator_id LIMIT ${value.int4(maxCount)}
      ) q
    ) s
    CROSS JOIN LATERAL (
      SELECT count(*)::int4 AS waiting FROM (
        SELECT FROM spend_event_waits w WHERE w.integrator_id = l.integrator_id LIMIT ${value.int4(maxCount)}
      ) w
    ) w
    ORDER BY l.since NULLS LAST, l.stored_at, l.integrator_id`
  return rows.map((row): IntegratorBacklog => ({
    integratorId: row.integratorId,
    stored: row.stored,
    waiting: row.waiting,
    ...(row.storedAt === null ? {} : { oldestStoredMillis: Math.max(0, now - row.storedAt) }),
    ...(row.reason === null ? {} : { quarantine: stateOf(row) })
  }))
})

const stateOf = ({ error, failures, nextAttemptAt, reason, since }: QuarantineState): QuarantineState => ({
  reason,
  error,
  failures,
  since,
  nextAttemptAt
})
