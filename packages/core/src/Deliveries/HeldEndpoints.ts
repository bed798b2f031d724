import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { SqlClient, Statement } from "effect/sql"
import { columnList, int4, int8, literal, text } from "../Database/Table.ts"
import { isOwned } from "../Slots.ts"

/*
 * Parts of the statements by which a holder updates its endpoints: `WITH held AS (…), changed AS (UPDATE …) SELECT …`.
 * None of them waits for an endpoint that another transaction has locked, which would hold up all others.
 */

/** Parameters that name leases. */
export const leaseColumns = columnList({ integrator_id: text<IntegratorId>(), generation: int4(), token: int8() })

/** Selects the rows `t` of an `unnest` with {@link leaseColumns} whose token is still the endpoint's. */
export const selectHeld = (sql: SqlClient.SqlClient, unnest: Statement.Fragment): Statement.Fragment =>
  sql`SELECT t.* FROM ${unnest} JOIN webhook_endpoints e ON ${leaseColumns.match("e", "t")}
    WHERE ${isOwned("e.integrator_id")}`

/**
 * Selects the rows of `held` with some columns of their endpoints `e`, and locks these; leaves out what is locked. It
 * is no common table expression, because Citus loses locked rows between two of these. The endpoints are updated by
 * their `ctid`, because a join by the key, planned while there are few endpoints, joins all of them with each.
 */
export const lockHeld = (columns = "e.ctid"): Statement.Fragment =>
  literal(`SELECT held.*, ${columns}
    FROM held JOIN webhook_endpoints e USING (integrator_id, generation, token)
    FOR NO KEY UPDATE OF e SKIP LOCKED`)

/** Selects the integrators of `held`, and again those of `changed`: not by a join, which compares each with each. */
export const selectChanged: Statement.Fragment = literal(`
  SELECT integrator_id, false AS is_changed FROM held UNION ALL SELECT integrator_id, true FROM changed`)

/** A row of {@link selectChanged}. */
export interface HeldRow {
  readonly integratorId: string
  readonly isChanged: boolean
}

/** Of the rows of a statement, the integrators whose endpoints it changed, and those whose endpoints were locked. */
export const outcomeOf = (rows: ReadonlyArray<HeldRow>) => {
  const namesOf = (some: ReadonlyArray<HeldRow>): ReadonlySet<string> =>
    new Set(some.map(({ integratorId }) => integratorId))
  const changed = namesOf(rows.filter(({ isChanged }) => isChanged))
  return { changed, busy: namesOf(rows.filter(({ integratorId }) => !changed.has(integratorId))) }
}
