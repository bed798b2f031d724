import type { Unavailable } from "@card-rewards/domain/Errors"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import { laneHeads } from "./Processing/LaneHeads.ts"
import type { Reason } from "./Quarantine.ts"

/** What an operator watches; see docs/operations.md. Counts stop at {@link maxRows}. */
export interface Vitals {
  /** Stored spend events that no worker has applied, and how long the oldest has waited. */
  readonly storedEvents: number
  readonly oldestStoredMillis: number
  /** Deliveries not done, and how long the one due longest has been due. */
  readonly pendingDeliveries: number
  readonly deliveryLagMillis: number
  /** Integrators in quarantine, for every reason. */
  readonly quarantined: Readonly<Record<Reason, number>>
  /**
   * Transactions begun since the oldest snapshot in use: a number that only grows keeps the queues from being vacuumed.
   */
  readonly xminAge: number
}

/** Smallest units of all vaults and users. Sums stop after {@link maxRows} balances, and as many waiting rewards. */
export interface Money {
  readonly asset: Asset
  readonly held: bigint
  readonly free: bigint
  readonly awaitingFunding: bigint
  readonly owed: bigint
}

/** Rows that one count or sum reads at most: beyond them the exact number does not matter, and would take long. */
export const maxRows = 1_000_000

/**
 * Lanes with stored events, and integrators with pending deliveries, among which the oldest is found at most: the first
 * by key. A lane takes about 20 µs.
 */
export const maxScanned = 10_000

const noneQuarantined: Vitals["quarantined"] = { behind: 0, failing: 0, locked: 0 }

/**
 * The service's health, read from the database without a lock. The cost is in proportion to the lanes and integrators
 * that have work, and to what is counted; those without work cost nothing.
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
 * The money of all vaults by asset, in one snapshot. It reads the balances of every vault, about 10 ms for each 10,000
 * integrators, and the rewards that wait and the users who owe.
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
