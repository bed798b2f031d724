import type { PgTypes } from "@effect/sql-pg"
import { Statement } from "effect/sql"

/*
 * Fragments that change no result, only the plan. Prepared plans are kept while tables grow from nothing to millions
 * of rows, and tables that empty again and again are analysed while they are empty: a plan must be right for both,
 * whatever PostgreSQL knows of the tables. The settings of every session are in SessionSettings.ts.
 */

const fragment = (sql: string): Statement.Fragment => Statement.fragment([Statement.literal(sql)])

/** {@link perRow} as text. */
export const perRowSql = "OFFSET 0"

/**
 * At the end of a `LATERAL` subquery: it is run for each outer row, by an index, instead of being merged into a join
 * that may read the whole table.
 */
export const perRow = fragment(perRowSql)

/**
 * A condition on the rows `t` of an `unnest` that is always true, and that the planner expects of one row in 200. It
 * takes a list for a row or two then, and changes rows at their places (`ctid`) one after another instead of reading
 * the table to compare it with the list.
 */
export const expectFewRows = fragment("num_nulls(t.integrator_id) = 0")

/**
 * `column = other` for integers, in a form that no index fits: the statement keeps to the index that its other
 * conditions name, even where an index that begins with this column looks better to the planner.
 */
export const equalWithoutIndex = (column: string, other: string | PgTypes.Parameter): Statement.Fragment =>
  Statement.fragment([
    Statement.literal(`${column} - `),
    typeof other === "string" ? Statement.literal(other) : Statement.parameter(other),
    Statement.literal(" = 0")
  ])
