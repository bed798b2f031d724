import type { Unavailable } from "@card-rewards/domain/Errors"
import type { Asset } from "@card-rewards/domain/Money"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"

/** What an operator watches; see docs/operations.md. Counts stop at {@link countLimit}. */
export interface Vitals {
  /** Stored spend events that no worker has applied, and how long the oldest has waited. */
  readonly storedEvents: number
  readonly oldestStoredMillis: number
  /** Deliveries not done, and how long the one due longest has been due. */
  readonly pendingDeliveries: number
  readonly deliveryLagMillis: number
  /** Smallest units of all vaults, by asset. */
  readonly money: ReadonlyArray<{
    readonly asset: Asset
    readonly held: bigint
    readonly free: bigint
    readonly awaitingFunding: bigint
    readonly owed: bigint
  }>
  /** Transactions begun since the oldest snapshot in use: a number that only grows keeps the queues from being vacuumed. */
  readonly xminAge: number
}

/** A count that large means "too many"; exactly how many does not matter, and would take long. */
export const countLimit = 1_000_000

/** The service's health, read from the database without a lock. */
export const read: Effect.Effect<Vitals, Unavailable, SqlClient.SqlClient> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const now = yield* Clock.currentTimeMillis
  const [counts] = yield* sql<{ storedEvents: number; pendingDeliveries: number; xminAge: number }>`SELECT
    (SELECT count(*)::int4 FROM (SELECT FROM spend_event_queue LIMIT ${value.int4(countLimit)}) q) AS stored_events,
    (SELECT count(*)::int4 FROM (SELECT FROM deliveries WHERE next_attempt_at > '-infinity'
      LIMIT ${value.int4(countLimit)}) d) AS pending_deliveries,
    (SELECT coalesce(max(greatest(age(backend_xmin), age(backend_xid))), 0)::int4 FROM pg_stat_activity) AS xmin_age`
  const [ages] = yield* sql<{ stored: number | null; due: number | null }>`SELECT
    (SELECT min(s.received_at) FROM lanes l CROSS JOIN LATERAL (
      SELECT e.received_at FROM spend_event_queue q JOIN spend_events e ON e.integrator_id = q.integrator_id
        AND e.user_id = q.user_id AND e.kind = q.kind AND e.external_transaction_id = q.external_transaction_id
      WHERE q.integrator_id = l.integrator_id AND q.lane = l.lane ORDER BY q.arrival LIMIT 1) s) AS stored,
    (SELECT min(s.next_attempt_at) FROM vaults v CROSS JOIN LATERAL (
      SELECT d.next_attempt_at FROM deliveries d
      WHERE d.integrator_id = v.integrator_id AND d.next_attempt_at > '-infinity'
        ORDER BY d.next_attempt_at LIMIT 1) s) AS due`
  // from the indexes of rewards that wait and of users who owe: how many users there are does not matter
  const money = yield* sql<Vitals["money"][number]>`SELECT asset, held, free,
      coalesce((SELECT sum(r.amount) FROM rewards r
        WHERE r.state = 'AwaitingFunding' AND r.asset = v.asset), 0)::numeric AS awaiting_funding,
      coalesce((SELECT sum(b.owed) FROM user_balances b WHERE b.asset = v.asset AND b.owed > 0), 0)::numeric AS owed
    FROM (SELECT asset, sum(held) AS held, sum(free) AS free FROM vault_balances GROUP BY asset) v ORDER BY asset DESC`
  const since = (at: number | null | undefined) => at === null || at === undefined ? 0 : Math.max(0, now - at)
  return {
    storedEvents: counts?.storedEvents ?? 0,
    oldestStoredMillis: since(ages?.stored),
    pendingDeliveries: counts?.pendingDeliveries ?? 0,
    deliveryLagMillis: since(ages?.due),
    money,
    xminAge: counts?.xminAge ?? 0
  }
}).pipe(Database.step)
