import { type SqlClient, Statement } from "effect/sql"
import { columns, value } from "../Database.ts"

/** Now, for every worker, whether the clock of this process is ahead or not. */
export const atOnce = (now: number): Statement.Fragment =>
  Statement.fragment([
    Statement.literal("least("),
    Statement.parameter(value.timestamptz(now)),
    Statement.literal(", statement_timestamp())")
  ])

/**
 * Whether new work has to wake an endpoint: no worker holds it and would find the work, and it is not due by then
 * anyway. Deliveries of an open breaker wait for its next probe.
 */
const isIdle = (sql: SqlClient.SqlClient, now: number) =>
  sql`e.deleted_at IS NULL AND e.worker IS NULL
    AND (e.work_at IS NULL OR e.work_at > greatest(e.probe_at, ${atOnce(now)}))`

/**
 * Lets a worker lease the idle endpoints of integrators. Inside the caller's transaction, which has locked the vaults:
 * a holder gives an endpoint up only under that lock, see `release`.
 */
export const wakeEndpoints = (sql: SqlClient.SqlClient, integratorIds: ReadonlyArray<string>, now: number) =>
  sql`UPDATE webhook_endpoints e SET work_at = greatest(${atOnce(now)}, e.probe_at)
    WHERE e.integrator_id = ANY(${columns.text(integratorIds)}) AND ${isIdle(sql, now)}`
