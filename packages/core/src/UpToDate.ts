import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { Clock, Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import * as Ledger from "./Ledger.ts"

/** Whether a user has due rewards (`due`), has waiting rewards that recoveries may fund (`waiting`), or neither. */
export type Due = "due" | "waiting" | null

/**
 * Reads rows of a user, after applying what is due. Each row says whether the user has due or waiting rewards. Where a
 * reward is past its holding period, has money assigned, or may be funded by recoveries from users who owe (decisions,
 * section 6), applies these rewards and reads the rows again. Nearly always nothing is due, and no lock is taken.
 */
export const upToDate = Effect.fnUntraced(function*<Row extends { readonly due: Due }, R>(
  integratorId: IntegratorId,
  userId: UserId,
  reading: Effect.Effect<ReadonlyArray<Row>, Unavailable, R>
) {
  const since = yield* Database.deadlineStart
  const rows = yield* reading
  const isDue = rows.some(({ due }) => due === "due")
  if (!isDue && !rows.some(({ due }) => due === "waiting")) return rows
  return yield* Effect.gen(function*() {
    if (!isDue && !(yield* isFundable(integratorId, userId))) return rows
    yield* Ledger.applyAllDue({ integratorId, userIds: new Set([userId]), clearings: [] })
    return yield* reading
  }).pipe(Effect.provideService(Database.WaitingSince, since))
})

/** SQL for the integrator's current time. */
export const nowOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  return sql`(SELECT ${value.timestamptz(yield* Clock.currentTimeMillis)} + clock_offset_millis * interval '1 ms'
    FROM integrators WHERE integrator_id = ${integratorId})`
})

/** SQL for {@link Due} of a row `b` of user_balances. */
export const dueOf = (sql: SqlClient.SqlClient, now: Statement.Fragment) =>
  sql`CASE WHEN b.due_at <= ${now} THEN 'due' WHEN b.awaiting_funding > 0 THEN 'waiting' END`

/**
 * Whether money is assigned to waiting rewards of the user, or recoveries from users who owe may fund them. Users who
 * owe and have a due or assigned reward are found by their partial indexes.
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

/** Applies what is due to a user, and to users whose recoveries may fund the user's rewards. Mostly nothing is due. */
export const bringUpToDate = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const now = yield* nowOf(integratorId)
  const sql = yield* SqlClient.SqlClient
  const reading = Database.withinRequestDeadline(sql<{ due: Due }>`
    SELECT ${dueOf(sql, now)} AS due FROM user_balances b
    WHERE b.integrator_id = ${integratorId} AND b.user_id = ${userId}`)
  yield* upToDate(integratorId, userId, reading)
})
