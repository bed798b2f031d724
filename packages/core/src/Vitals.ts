import type { Unavailable } from "@card-rewards/domain/Errors"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import { laneHeads } from "./Processing/LaneHeads.ts"
import type { Reason } from "./Quarantine.ts"

/** Health figures for operators; see docs/operations.md. Counts stop at {@link maxRows}. */
export interface Vitals {
  /** Events in the queue, and the age of the oldest. */
  readonly storedEvents: number
  readonly oldestStoredMillis: number
  /** Pending deliveries, and how long the most overdue one has been due. */
  readonly pendingDeliveries: number
  readonly deliveryLagMillis: number
  /** Integrators in quarantine, by reason. */
  readonly quarantined: Readonly<Record<Reason, number>>
  /**
   * Transactions started since the oldest snapshot in use. While it keeps growing, vacuum cannot remove the dead rows
   * of the queues.
   */
  readonly xminAge: number
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
export const maxRows = 1_000_000

/**
 * The maximum numbers of lanes with queued events, and of integrators with pending deliveries, that the search for the
 * oldest one reads: the first ones by key. A lane takes about 20 µs.
 */
export const maxScanned = 10_000

const noneQuarantined: Vitals["quarantined"] = { behind: 0, failing: 0, locked: 0 }

/**
 * Reads the vitals without locks. The cost is proportional to the lanes and integrators with work and to the counted
 * rows; integrators without work cost nothing.
 */
export const read: Effect.Effect<Vitals, Unavailable, SqlClient.SqlClient> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const [counts] = yield* sql<{ storedEvents: number; pendingDeliveries: number; xminAge: number }>`SELECT
    (SELECT count(*)::int4 FROM (SELECT FROM spend_event_queue LIMIT ${value.int4(maxRows)}) q) AS stored_events,
    (SELECT count(*)::int4 FROM (SELECT FROM deliveries WHERE next_attempt_at > '-infinity'
      LIMIT ${value.int4(maxRows)}) d) AS pending_deliveries,
    (SELECT coalesce(max(greatest(age(backend_xmin), age(backend_xid))), 0)::int4 FROM pg_stat_activity) AS xmin_age`
  const [stored] = yield* sql<{ since: number | null }>`
    SELECT min(head.stored_at) AS since FROM (${sql.literal(laneHeads(maxScanned))}) head`
  const [due] = yield* sql<{ since: number | null }>`
    WITH RECURSIVE first AS (
      (SELECT integrator_id, next_attempt_at, 1 AS ordinal FROM deliveries WHERE next_attempt_at > '-infinity'
        ORDER BY integrator_id, next_attempt_at LIMIT 1)
      UNION ALL
      SELECT following.*, first.ordinal + 1 FROM first CROSS JOIN LATERAL (
        SELECT d.integrator_id, d.next_attempt_at FROM deliveries d
        WHERE d.next_attempt_at > '-infinity' AND d.integrator_id > first.integrator_id
        ORDER BY d.integrator_id, d.next_attempt_at LIMIT 1
      ) following WHERE first.ordinal < ${value.int4(maxScanned)}
    ) SELECT min(next_attempt_at) AS since FROM first`
  const quarantined = yield* sql<{ reason: Reason; count: number }>`SELECT reason, count(*)::int4 AS count
    FROM (SELECT reason FROM quarantine LIMIT ${value.int4(maxRows)}) q GROUP BY reason`
  const ageOf = (since: number | null = null) => since === null ? 0 : Math.max(0, now - since)
  return {
    storedEvents: counts?.storedEvents ?? 0,
    oldestStoredMillis: ageOf(stored?.since),
    pendingDeliveries: counts?.pendingDeliveries ?? 0,
    deliveryLagMillis: ageOf(due?.since),
    quarantined: { ...noneQuarantined, ...Object.fromEntries(quarantined.map((row) => [row.reason, row.count])) },
    xminAge: counts?.xminAge ?? 0
  }
}).pipe(Database.backgroundStep)

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
      (SELECT asset, held, free, 0::numeric AS awaiting_funding, 0::numeric AS owed FROM vault_balances LIMIT ${limit})
      UNION ALL
      (SELECT asset, 0, 0, amount, 0 FROM rewards WHERE state = 'AwaitingFunding' LIMIT ${limit})
      UNION ALL
      (SELECT asset, 0, 0, 0, owed FROM user_balances WHERE owed > 0 LIMIT ${limit})
    ) part GROUP BY asset`
  return assets.map((asset) =>
    rows.find((row) => row.asset === asset) ?? { asset, held: 0n, free: 0n, awaitingFunding: 0n, owed: 0n })
}).pipe(Database.backgroundStep)
