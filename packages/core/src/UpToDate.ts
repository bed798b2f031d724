import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { Clock, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import * as Ledger from "./Ledger.ts"

/** What a read of a user's rows found about what is due: to the user, perhaps through others, nothing. */
export type Due = "due" | "waiting" | null

/**
 * Rows of a user, each of which tells besides whether something is due: to the user (rewards past their holding period,
 * and those that money is assigned to), or to users who owe: their recoveries may fund this user's waiting rewards
 * (decisions, section 6). What is due is applied, and the rows are read again; nearly always nothing is, and no lock is
 * taken.
 */
export const upToDate = Effect.fnUntraced(function*<Row extends { readonly due: Due }, R>(
  integratorId: IntegratorId,
  userId: UserId,
  reading: Effect.Effect<ReadonlyArray<Row>, Unavailable, R>
) {
  const rows = yield* reading
  const isDue = rows.some(({ due }) => due === "due")
  if (!isDue && !rows.some(({ due }) => due === "waiting")) return rows
  if (!isDue && !(yield* isFundable(integratorId, userId))) return rows
  yield* Ledger.applyAllDue({ integratorId, userIds: new Set([userId]), clearings: [] })
  return yield* reading
})

/** The integrator's time. */
export const nowOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  return sql`(SELECT ${value.timestamptz(yield* Clock.currentTimeMillis)} + clock_offset_millis * interval '1 ms'
    FROM integrators WHERE integrator_id = ${integratorId})`
})

/** A user's row tells whether a pending reward is past its holding period, and whether rewards wait for money. */
export const dueOf = (sql: SqlClient.SqlClient, now: Statement.Fragment) =>
  sql`CASE WHEN b.due_at <= ${now} THEN 'due' WHEN b.awaiting_funding > 0 THEN 'waiting' END`

/**
 * Whether money is assigned to waiting rewards of the user, or may come from users who owe: those who have something
 * due, or assigned, are found by a step into an index of theirs.
 */
const isFundable = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const sql = yield* SqlClient.SqlClient
  const now = yield* nowOf(integratorId)
  const [row] = yield* sql<{ due: boolean }>`
    SELECT EXISTS (
      SELECT 1 FROM vault_balances v CROSS JOIN LATERAL (
        SELECT 1 FROM user_balances b WHERE b.integrator_id = v.integrator_id AND b.user_id = ${userId}
          AND b.asset = v.asset AND b.first_waiting <= v.assigned_to LIMIT 1
      ) b WHERE v.integrator_id = ${integratorId} AND v.assigned > 0
    ) OR EXISTS (
      SELECT 1 FROM vault_balances v CROSS JOIN LATERAL (
        SELECT 1 FROM user_balances b WHERE b.integrator_id = v.integrator_id AND b.asset = v.asset AND b.owed > 0
          AND b.due_at <= ${now} ORDER BY b.due_at, b.due_creation LIMIT 1
      ) b WHERE v.integrator_id = ${integratorId}
    ) OR EXISTS (
      SELECT 1 FROM vault_balances v CROSS JOIN LATERAL (
        SELECT 1 FROM user_balances b WHERE b.integrator_id = v.integrator_id AND b.asset = v.asset AND b.owed > 0
          AND b.first_waiting <= v.assigned_to ORDER BY b.first_waiting LIMIT 1
      ) b WHERE v.integrator_id = ${integratorId} AND v.assigned > 0
    ) AS due`
  return row?.due === true
}, Database.withinRequestDeadline)

/**
 * Applies what is due to a user, and to others whose recoveries may fund the user's rewards; nearly always nothing is.
 */
export const bringUpToDate = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const now = yield* nowOf(integratorId)
  const sql = yield* SqlClient.SqlClient
  const reading = Database.withinRequestDeadline(sql<{ due: Due }>`
    SELECT ${dueOf(sql, now)} AS due FROM user_balances b
    WHERE b.integrator_id = ${integratorId} AND b.user_id = ${userId}`)
  yield* upToDate(integratorId, userId, reading)
})
