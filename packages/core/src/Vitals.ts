import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { backgroundStep, value } from "./Database.ts"
import { literal } from "./Database/Table.ts"
import { endpointLags, endpointsWithWork } from "./EndpointLag.ts"
import { laneHeads } from "./Processing/LaneHeads.ts"
import type { Reason } from "./Processing/Quarantine.ts"
import { integratorsOnTheMove } from "./Slots.ts"

/**
 * Health figures of a cell for operators; see docs/operations.md. Counts stop at {@link maxRows}, those of retries at
 * {@link maxRetries}. Rows of slots that the cell does not own do not count.
 */
export interface Vitals {
  /** Events in the queue, and the age of the oldest. */
  readonly storedEvents: number
  readonly oldestStoredMillis: number
  /** Events that endpoints have not passed, and retries. */
  readonly pendingDeliveries: number
  /** Age of the oldest event that an endpoint has not passed, or that is an open retry. */
  readonly deliveryLagMillis: number
  /** Endpoints that are behind for at least {@link minLagMillis}, the longest first; {@link maxLags} at most. */
  readonly endpointLags: ReadonlyArray<EndpointLag>
  /** Integrators in quarantine, by reason. */
  readonly quarantined: Readonly<Record<Reason, number>>
  /**
   * Transactions started since the oldest snapshot in use. While it keeps growing, vacuum cannot remove the dead rows
   * of the queues.
   */
  readonly xminAge: number
}

/** How far an endpoint is behind its integrator's events. */
export interface EndpointLag {
  readonly integratorId: IntegratorId
  /** Events that the endpoint has not passed, and the age of the first one. */
  readonly events: number
  readonly ageMillis: number
}

/** Sums over all vaults and users in smallest units, of at most {@link maxRows} rows of each table. */
export interface Money {
  readonly asset: Asset
  readonly held: bigint
  readonly free: bigint
  readonly awaitingFunding: bigint
  readonly owed: bigint
}

/** The maximum number of rows that one count or sum reads: an exact larger number would be slow and of no use. */
const maxRows = 1_000_000

/**
 * The maximum number of open retries that each of the two counts of them reads. They are read from the table, each from
 * another page, which takes ten times as long as an index alone.
 */
const maxRetries = 100_000

/**
 * The maximum numbers of lanes with queued events, and of endpoints with work, that the search for the oldest event
 * reads: the first lanes by key, the endpoints that wait longest. One takes about 20 µs.
 */
const maxScanned = 10_000

/** The maximum number of endpoints whose lag is reported: each is a series in the store of the metrics. */
export const maxLags = 100

/** A busy endpoint is behind for moments, again and again. It is reported once it is behind for this long. */
const minLagMillis = 60_000

const isOwn = literal(`integrator_id NOT IN (${integratorsOnTheMove})`)

const noneQuarantined: Vitals["quarantined"] = { behind: 0, failing: 0, locked: 0 }

/**
 * Reads the vitals without locks. The cost is proportional to the lanes and endpoints with work and to the counted
 * rows; integrators without work cost nothing.
 */
export const read: Effect.Effect<Vitals, Unavailable, SqlClient.SqlClient> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const [counts] = yield* sql<{ storedEvents: number; retries: number; xminAge: number }>`SELECT
    (SELECT count(*)::int4 FROM (SELECT unnest(kinds) FROM spend_event_queue WHERE ${isOwn}
      LIMIT ${value.int4(maxRows)}) q) AS stored_events,
    -- by the indexes of open retries: those with a time, and those behind another one of their reward
    (SELECT count(*)::int4 FROM (SELECT FROM retries WHERE next_attempt_at > '-infinity' AND ${isOwn}
      LIMIT ${value.int4(maxRetries)}) r) + (SELECT count(*)::int4 FROM (SELECT next_attempt_at FROM retries
      WHERE state = 'open' AND reward IS NOT NULL AND ${isOwn} LIMIT ${value.int4(maxRetries)}) r
      WHERE next_attempt_at IS NULL)
      AS retries,
    -- also of replicas, and of transactions that are prepared
    (SELECT coalesce(max(age(oldest)), 0)::int4 FROM (SELECT unnest(ARRAY[backend_xmin, backend_xid])
      FROM pg_stat_activity UNION ALL SELECT xmin FROM pg_replication_slots
      UNION ALL SELECT transaction FROM pg_prepared_xacts) AS held (oldest)) AS xmin_age`
  const [stored] = yield* sql<{ since: number | null }>`
    SELECT min(head.stored_at) AS since FROM (${sql.literal(laneHeads(maxScanned))}) head`
  const consumers = yield* readConsumers(now)
  const quarantined = yield* sql<{ reason: Reason; count: number }>`SELECT reason, count(*)::int4 AS count
    FROM (SELECT reason FROM quarantine WHERE ${isOwn} LIMIT ${value.int4(maxRows)}) q GROUP BY reason`
  const ageOf = (since: number | null = null) => since === null ? 0 : Math.max(0, now - since)
  return {
    storedEvents: counts?.storedEvents ?? 0,
    oldestStoredMillis: ageOf(stored?.since),
    pendingDeliveries: (counts?.retries ?? 0) + consumers.events,
    deliveryLagMillis: ageOf(consumers.since),
    endpointLags: consumers.behind.map(({ integratorId, lag, oldestAt }): EndpointLag =>
      ({ integratorId, events: Number(lag), ageMillis: ageOf(oldestAt) })),
    quarantined: { ...noneQuarantined, ...Object.fromEntries(quarantined.map((row) => [row.reason, row.count])) },
    xminAge: counts?.xminAge ?? 0
  }
}).pipe(backgroundStep)

interface LaggingEndpoint {
  readonly integratorId: IntegratorId
  readonly lag: bigint
  readonly oldestAt: number
}

/** Sums over the endpoints that have work, and those that are furthest behind, in one scan. */
const readConsumers = Effect.fnUntraced(function*(now: number) {
  const sql = yield* SqlClient.SqlClient
  type Row = { events: bigint | null; since: number | null } & (LaggingEndpoint | { integratorId: null })
  const rows = yield* sql<Row>`
    WITH consumers AS MATERIALIZED (${sql.literal(endpointLags(endpointsWithWork(maxScanned)))})
    SELECT total.*, behind.* FROM (
      SELECT sum(lag)::int8 AS events, min(least(oldest_at, retry_at)) AS since FROM consumers
    ) total
    LEFT JOIN (
      SELECT integrator_id, lag, oldest_at FROM consumers
      WHERE oldest_at <= ${value.timestamptz(now - minLagMillis)}
      ORDER BY oldest_at, integrator_id LIMIT ${value.int4(maxLags)}
    ) behind ON true ORDER BY behind.oldest_at, behind.integrator_id`
  return {
    events: Number(rows[0]?.events ?? 0n),
    since: rows[0]?.since,
    behind: rows.filter((row) => row.integratorId !== null)
  }
})

/**
 * Reads the money of all vaults by asset, in one snapshot: the balances of every vault, which take about 10 ms for
 * 10,000 integrators, all waiting rewards and all users who owe.
 */
export const readMoney: Effect.Effect<ReadonlyArray<Money>, Unavailable, SqlClient.SqlClient> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const limit = value.int4(maxRows)
  const rows = yield* sql<Money>`
    SELECT asset, sum(held) AS held, sum(free) AS free, sum(awaiting_funding) AS awaiting_funding, sum(owed) AS owed
    FROM (
      (SELECT asset, held, free, 0::numeric AS awaiting_funding, 0::numeric AS owed FROM vault_balances
        WHERE ${isOwn} LIMIT ${limit})
      UNION ALL
      (SELECT asset, 0, 0, amount, 0 FROM rewards WHERE state = 'AwaitingFunding' AND ${isOwn} LIMIT ${limit})
      UNION ALL
      (SELECT asset, 0, 0, 0, owed FROM user_balances WHERE owed > 0 AND ${isOwn} LIMIT ${limit})
    ) part GROUP BY asset`
  return assets.map((asset) =>
    rows.find((row) => row.asset === asset) ?? { asset, held: 0n, free: 0n, awaitingFunding: 0n, owed: 0n })
}).pipe(backgroundStep)
