import type { SqlClient, Statement } from "effect/sql"
import { perRow } from "../Database/PlannerHints.ts"
import { literal } from "../Database/Table.ts"

/**
 * Selects when the next delivery of an endpoint is due, as `next_at`: `at` where it has new events or a replay, and
 * otherwise the time of its first retry; null where it has none. `endpoint` is the alias of a row with its columns.
 */
export const nextWork = (
  sql: SqlClient.SqlClient,
  endpoint: string,
  { at, hasEvents }: { readonly at: Statement.Fragment; readonly hasEvents: Statement.Fragment }
): Statement.Fragment => {
  const ofEndpoint = literal(`r.integrator_id || '' = ${endpoint}.integrator_id`)
  const firstRevision = literal(`${endpoint}.first_revision`)
  const revision = literal(`${endpoint}.revision`)
  return sql`SELECT min(next.at) AS next_at FROM (
      (SELECT ${at} WHERE ${hasEvents} OR ${literal(`${endpoint}.replay`)} IS NOT NULL)
      UNION ALL
      (SELECT ${at} FROM retries r WHERE ${ofEndpoint} AND r.revision >= ${firstRevision} AND r.revision < ${revision}
        AND r.next_attempt_at > '-infinity' LIMIT 1)
      UNION ALL
      (SELECT r.next_attempt_at FROM retries r WHERE ${ofEndpoint} AND r.revision = ${revision}
        AND r.next_attempt_at > '-infinity' ORDER BY r.next_attempt_at LIMIT 1)
    ) AS next(at) ${perRow}`
}
