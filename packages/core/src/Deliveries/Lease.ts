import type { Breaker } from "@card-rewards/domain/Delivery"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { columns, value } from "../Database.ts"
import { expectFewRows } from "../Database/PlannerHints.ts"
import { columnList, int8, nullable, text, timestamptz } from "../Database/Table.ts"
import type { EndpointLease, Leased, LeaseOptions, Released, Renewed } from "./Delivery.ts"
import { isOwned } from "../Slots.ts"
import { type HeldRow, leaseColumns, lockHeld, outcomeOf, selectChanged, selectHeld } from "./HeldEndpoints.ts"
import { nextWork } from "./NextWork.ts"
import { atOnce } from "./WakeUp.ts"

const releaseColumns = columnList({ ...leaseColumns.columns, not_before: nullable(timestamptz()) })
const cursorColumns = columnList({ integrator_id: text(), cursor: int8() })

/**
 * Leases endpoints with work and reads, with a snapshot after the lease, how far their last holder had come. Inside the
 * caller's transaction: where the read fails, no one has the leases.
 */
export const lease = Effect.fnUntraced(function*(options: LeaseOptions) {
  const sql = yield* SqlClient.SqlClient
  const taken = yield* sql<Omit<Leased, "breaker" | "ahead"> & Breaker>`
    UPDATE webhook_endpoints e
    SET worker = ${options.worker}, token = e.token + 1, work_at = ${value.timestamptz(options.until)}
    FROM (
      SELECT integrator_id, generation, worker FROM webhook_endpoints
      WHERE deleted_at IS NULL AND work_at <= ${value.timestamptz(options.now)} AND ${isOwned("integrator_id")}
      ORDER BY work_at, integrator_id LIMIT ${value.int4(options.limit)} FOR NO KEY UPDATE SKIP LOCKED
    ) t
    WHERE e.integrator_id = t.integrator_id AND e.generation = t.generation
    RETURNING e.integrator_id, e.generation, e.token, e.cursor, e.failures, e.probe_at, t.worker AS taken_from`
  if (taken.length === 0) return []
  const ahead = yield* sql<{ integratorId: string; event: bigint }>`
    SELECT t.integrator_id, greatest(t.cursor,
      (SELECT r.event FROM retries r WHERE r.integrator_id = t.integrator_id AND r.event > t.cursor AND r.round = 1
        ORDER BY r.event DESC LIMIT 1),
      (SELECT a.event FROM delivery_attempts a WHERE a.integrator_id = t.integrator_id AND a.event > t.cursor
        AND a.status BETWEEN 200 AND 299 ORDER BY a.event DESC LIMIT 1)) AS event
    FROM ${cursorColumns.unnest(taken)}`
  const aheadOf = new Map(ahead.map(({ event, integratorId }) => [integratorId, event]))
  return taken.map(({ failures, probeAt, ...lease }): Leased => ({
    ...lease,
    breaker: { failures, probeAt },
    ahead: aheadOf.get(lease.integratorId) ?? lease.cursor
  }))
})

/** Extends leases whose token is still the endpoint's. A statement that a later one has overtaken shortens none. */
export const renew = Effect.fnUntraced(function*(leases: ReadonlyArray<EndpointLease>, until: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = leases.length === 0 ? [] : yield* sql<HeldRow>`
    WITH held AS (${selectHeld(sql, leaseColumns.unnest(leases))} AND e.worker IS NOT NULL), changed AS (
      UPDATE webhook_endpoints e SET work_at = greatest(e.work_at, ${value.timestamptz(until)})
      FROM (${lockHeld()}) t WHERE e.ctid = t.ctid AND ${expectFewRows}
      RETURNING e.integrator_id
    ) ${selectChanged}`
  const { busy, changed } = outcomeOf(rows)
  return { renewed: changed, busy } satisfies Renewed
})

/**
 * Gives up leases, inside the caller's transaction. A transaction that stores events locks the vault, and leaves a
 * leased endpoint to its holder. So whether there is more to do is read while the vault is locked; where another
 * transaction has locked the vault, it probably stores events, and the endpoint is due at once. Returns the integrators
 * whose endpoints are locked, and still leased.
 */
export const release = Effect.fnUntraced(function*(leases: ReadonlyArray<Released>, now: number) {
  if (leases.length === 0) return new Set<string>()
  const sql = yield* SqlClient.SqlClient
  const locked = yield* sql<{ integratorId: string }>`
    SELECT v.integrator_id FROM vaults v
    WHERE v.integrator_id = ANY(${columns.text(leases.map(({ integratorId }) => integratorId))})
    ORDER BY v.integrator_id FOR NO KEY UPDATE SKIP LOCKED`
  const hasEvents = sql`v.events > t.cursor
    OR t.integrator_id <> ALL(${columns.text(locked.map(({ integratorId }) => integratorId))})`
  const rows = yield* sql<HeldRow>`
    WITH held AS (${selectHeld(sql, releaseColumns.unnest(leases))}), changed AS (
      UPDATE webhook_endpoints e SET worker = NULL, work_at = CASE
        WHEN w.next_at IS NULL THEN NULL
        ELSE greatest(t.not_before, w.next_at, e.probe_at) END
      FROM (${lockHeld("e.ctid, e.cursor, e.replay, e.first_revision, e.revision")}) t
      JOIN vaults v USING (integrator_id)
      CROSS JOIN LATERAL (${nextWork(sql, "t", { at: atOnce(now), hasEvents })}) w
      WHERE e.ctid = t.ctid AND ${expectFewRows}
      RETURNING e.integrator_id
    ) ${selectChanged}`
  return outcomeOf(rows).busy
})
