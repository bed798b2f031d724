import { Statement } from "effect/sql"
import { literal } from "./Table.ts"

/*
 * Fragments that change no result, only the plan. Prepared plans are kept while tables grow from empty to millions of
 * rows, and queue tables are often analysed while they are empty. A plan must be good for both sizes, whatever the
 * statistics say. The settings of every session are in SessionSettings.ts.
 */

/** {@link perRow} as text. */
export const perRowSql = "OFFSET 0"

/**
 * An optimization fence at the end of a `LATERAL` subquery: PostgreSQL runs the subquery for each outer row, by an
 * index, instead of flattening it into a join that may read the whole table.
 */
export const perRow = literal(perRowSql)

const expectFewRowsSql = "num_nulls(t.integrator_id) = 0"

/**
 * A condition on the rows `t` of an `unnest` that is always true, and that the planner estimates to hold for one row in
 * 200. The planner then expects one or two rows and updates them by their `ctid` in a nested loop, instead of scanning
 * the table for a hash join.
 */
export const expectFewRows = literal(expectFewRowsSql)

/**
 * `CROSS JOIN LATERAL … WHERE …`: finds the rows of `table`, named `alias`, by the keys of the rows `t` of an `unnest`,
 * and updates or deletes them by their `ctid`. A join by the key alone, planned while the table is empty or was when it
 * was last analysed, reads all of it, and all rows `t` for each of its rows. The caller holds a lock, of a vault, a
 * lane or an endpoint, under which alone these rows change, so that their `ctid` stays.
 */
export const joinByKey = (
  table: string,
  alias: string,
  key: { readonly match: (alias: string, other: string) => Statement.Fragment }
): Statement.Fragment =>
  Statement.fragment([
    Statement.literal(`CROSS JOIN LATERAL (SELECT f.ctid FROM ${table} f WHERE `),
    ...key.match("f", "t").segments,
    Statement.literal(` ${perRowSql}) found(tid) WHERE ${expectFewRowsSql} AND ${alias}.ctid = found.tid`)
  ])

/**
 * A condition that `alias` is the version of a row that `t` names, which the transaction has read; see `rowVersion`.
 * The first part is that of {@link expectFewRows}.
 */
export const atVersion = (alias: string): Statement.Fragment =>
  literal(`num_nulls(t.ctid) = 0 AND ${alias}.ctid = t.ctid AND ${alias}.xmin = t.xmin`)

/**
 * SQL for `(integrator_id, user_id)` of rewards `alias`, in the collation of the index `rewards_of_user`, which no
 * other index has. Where most users have one reward, the planner takes any index that begins with these columns for one
 * that finds a single reward: a look-up by creation would read all rewards of a user by the primary key, and a look-up
 * by key all of them by this index. In this form the former use this index, and in the default collation the latter do
 * not.
 */
export const rewardsOfUser = (alias: string): string =>
  `(${alias}.integrator_id COLLATE "POSIX", ${alias}.user_id COLLATE "POSIX")`

/**
 * SQL for `(generation, integrator_id)` of the first or the repeated deliveries among retries `alias`, to compare: in
 * the collation of the indexes `retries_first` and `retries_repeated`, and with their condition, which no other index
 * of the table has.
 */
export const retriesOfEndpoint = (alias: string, which: "first" | "repeated"): string =>
  `least(${alias}.round, 2) = ${which === "first" ? 1 : 2}
    AND (${alias}.generation, ${alias}.integrator_id COLLATE "POSIX")`
