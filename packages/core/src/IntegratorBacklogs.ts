import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Context, Effect, Layer, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { value, withinRequestDeadline } from "./Database.ts"
import { perRow, perRowSql, retriesOfEndpoint } from "./Database/PlannerHints.ts"
import { endpointLags, endpointsWithWork } from "./EndpointLag.ts"
import { laneHeads } from "./Processing/LaneHeads.ts"
import type { Reason } from "./Processing/Quarantine.ts"
import { isOwned } from "./Slots.ts"

/** The backlog of an integrator. Counts of rows stop at {@link maxCount}; the lag of deliveries is exact. */
export interface IntegratorBacklog {
  readonly integratorId: IntegratorId
  /** Events in the queue. */
  readonly stored: number
  /** Waiting events. */
  readonly waiting: number
  /** Age of the oldest queued event; absent where there is none, or its lane is beyond {@link maxLanes}. */
  readonly oldestStoredMillis?: number
  /** What its endpoint still has to get; absent where it has no endpoint. */
  readonly deliveries?: DeliveryBacklog
  /** Present while the integrator is in quarantine: its events are processed separately and retried after pauses. */
  readonly quarantine?: QuarantineState
}

/** What an endpoint still has to get. */
export interface DeliveryBacklog {
  /** Events that its cursor has not passed, and the age of the oldest; that is absent where there are none. */
  readonly lag: number
  readonly oldestLagMillis?: number
  /** Open retries, and the age of the oldest; that is absent where there are none. */
  readonly retries: number
  readonly oldestRetryMillis?: number
  /** Present while the breaker is open: when the next probe may be sent, in milliseconds. */
  readonly nextProbeAt?: number
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

/** The maximum number of integrators listed for their spend events or a quarantine, and of others for deliveries. */
export const maxListed = 100

/** The maximum of each count of a listed integrator: an exact larger number would be slow to compute and of no use. */
export const maxCount = 10_000

/** The maximum number of lanes with queued events that a list covers, in the order of their keys. */
const maxLanes = 10_000

/** The maximum number of endpoints with work that a list covers, those that have waited longest. */
const maxEndpoints = 10_000

/** What is still to be done, by integrator. */
export class IntegratorBacklogs extends Context.Service<IntegratorBacklogs, {
  /**
   * Integrators in quarantine, by how long they have been there, then other integrators with stored events or pending
   * deliveries, by the age of the oldest of both. {@link maxListed} of them are found by the first two, as many by
   * their deliveries. The limits above bound the cost, for any number of integrators, events and endpoints.
   */
  readonly list: Effect.Effect<ReadonlyArray<IntegratorBacklog>, Unavailable>
}>()("@card-rewards/core/IntegratorBacklogs") {
  static readonly layer: Layer.Layer<IntegratorBacklogs, never, SqlClient.SqlClient> = Layer.effect(
    IntegratorBacklogs,
    Effect.map(SqlClient.SqlClient, (sql) =>
      IntegratorBacklogs.of({
        list: withinRequestDeadline(list).pipe(
          Effect.provideService(SqlClient.SqlClient, sql),
          Effect.withSpan("IntegratorBacklogs.list")
        )
      }))
  )
}

type Row = {
  readonly integratorId: IntegratorId
  readonly stored: number
  readonly waiting: number
  readonly storedAt: number | null
} & (QuarantineState | { readonly reason: null }) & (DeliveryRow | { readonly lag: null })

interface DeliveryRow {
  readonly lag: bigint
  readonly oldestAt: number | null
  readonly retries: number
  readonly retryAt: number | null
  readonly probeAt: number | null
}

const list = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const open = (which: "first" | "repeated") =>
    sql`SELECT FROM retries r WHERE ${sql.literal(retriesOfEndpoint("r", which))} = (e.generation, l.integrator_id)
      AND r.state = 'open' LIMIT ${value.int4(maxCount)}`
  const rows = yield* sql<Row>`
    WITH queued AS (
      SELECT integrator_id, min(stored_at) AS stored_at FROM (${sql.literal(laneHeads(maxLanes))}) head
      GROUP BY integrator_id
    ), unprocessed AS (
      SELECT integrator_id, h.stored_at, q.reason, q.error, q.failures, q.since, q.next_attempt_at
      FROM queued h FULL JOIN (
        SELECT * FROM quarantine z WHERE ${isOwned("z.integrator_id")}
      ) q USING (integrator_id)
      ORDER BY q.since NULLS LAST, h.stored_at, integrator_id LIMIT ${value.int4(maxListed)}
    ), undelivered AS (
      SELECT integrator_id FROM (${sql.literal(endpointLags(endpointsWithWork(maxEndpoints)))}) e
      WHERE lag > 0 OR retry_at IS NOT NULL
      ORDER BY least(oldest_at, retry_at), integrator_id LIMIT ${value.int4(maxListed)}
    ), listed AS MATERIALIZED (
      SELECT * FROM unprocessed FULL JOIN undelivered USING (integrator_id)
    )
    SELECT l.*, s.stored, w.waiting, e.lag, e.oldest_at, e.retry_at, e.probe_at, r.retries FROM listed l
    LEFT JOIN (${sql.literal(endpointLags(listedEndpoints))}) e USING (integrator_id)
    CROSS JOIN LATERAL (
      SELECT count(*)::int4 AS stored FROM (
        SELECT unnest(q.kinds) FROM spend_event_queue q WHERE q.integrator_id = l.integrator_id
        LIMIT ${value.int4(maxCount)}
      ) q
    ) s
    CROSS JOIN LATERAL (
      SELECT count(*)::int4 AS waiting FROM (
        SELECT FROM spend_event_waits w WHERE w.integrator_id = l.integrator_id LIMIT ${value.int4(maxCount)}
      ) w
    ) w
    CROSS JOIN LATERAL (
      SELECT count(*)::int4 AS retries FROM (
        (${open("first")}) UNION ALL (${open("repeated")}) LIMIT ${value.int4(maxCount)}
      ) r ${perRow}
    ) r
    ORDER BY l.since NULLS LAST, least(l.stored_at, e.oldest_at, e.retry_at), l.integrator_id`
  const ageOf = (at: number) => Math.max(0, now - at)
  return rows.map((row): IntegratorBacklog => ({
    integratorId: row.integratorId,
    stored: row.stored,
    waiting: row.waiting,
    ...(row.storedAt === null ? {} : { oldestStoredMillis: ageOf(row.storedAt) }),
    ...(row.lag === null ? {} : { deliveries: deliveriesOf(row, ageOf) }),
    ...(row.reason === null ? {} : { quarantine: stateOf(row) })
  }))
})

/** The live endpoints of the listed integrators. */
const listedEndpoints = `
  SELECT e.* FROM listed l CROSS JOIN LATERAL (
    SELECT e.integrator_id, e.generation, e.cursor, e.probe_at FROM webhook_endpoints e
    WHERE e.integrator_id = l.integrator_id AND e.deleted_at IS NULL ${perRowSql}
  ) e`

const deliveriesOf = (
  { lag, oldestAt, probeAt, retries, retryAt }: DeliveryRow,
  ageOf: (at: number) => number
): DeliveryBacklog => ({
  lag: Number(lag),
  ...(oldestAt === null ? {} : { oldestLagMillis: ageOf(oldestAt) }),
  retries,
  ...(retryAt === null ? {} : { oldestRetryMillis: ageOf(retryAt) }),
  ...(probeAt === null ? {} : { nextProbeAt: probeAt })
})

const stateOf = (row: QuarantineState): QuarantineState =>
  Struct.pick(row, ["reason", "error", "failures", "since", "nextAttemptAt"])
