import type { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { expectFewRows, perRow } from "../Database/PlannerHints.ts"
import { columnList, int4, int8, literal, nullable, text, type Written } from "../Database/Table.ts"

const positions = columnList({
  integrator_id: text(),
  generation: int4(),
  reward: nullable(int8()),
  event: int8(),
  round: int4()
})
const rewardsOf = positions.pick("integrator_id", "generation", "reward")

/** A delivery's position in the order of a reward of an endpoint. */
type Position = Written<typeof positions>

/**
 * SQL for the chain of a delivery, as the index `retries_open` and the worker's window have it: its reward, or minus
 * its event where it has none.
 */
const chainOf = (alias: string): string => `coalesce(${alias}.reward, -${alias}.event)`

/**
 * A condition that `alias` is an open retry of this chain, of the endpoint of `of` with this generation. It has the
 * columns of the index `retries_open`, so that the rows that deleted endpoints have left, and those that are closed,
 * are not read, whatever the planner knows of the table.
 */
const isOpenSql = (alias: string, of: string, chain: string, generation = `${of}.generation`): string =>
  `${alias}.integrator_id || '' = ${of}.integrator_id AND ${chainOf(alias)} = ${chain}
    AND ${alias}.generation + 0 = ${generation} AND ${alias}.state = 'open'`

/** A condition that `alias` is an open retry of the reward of the delivery `of`. */
export const isOpenOfReward = (alias: string, of: string): Statement.Fragment =>
  literal(isOpenSql(alias, of, `${of}.reward`))

/**
 * A condition that `alias` is an open retry of the event `of`, of the endpoint with this generation. The event has its
 * chain as a column: an expression costs enough for the planner to take another index while the table is small.
 */
export const isOpenOfEvent = (alias: string, of: string, generation = `${of}.generation`): Statement.Fragment =>
  literal(`${isOpenSql(alias, of, `${of}.chain`, generation)} AND ${alias}.event = ${of}.event`)

/** The columns of an event `alias`, with its chain. */
export const withChain = (alias: string): Statement.Fragment => literal(`${alias}.*, ${chainOf(alias)} AS chain`)

/** Whether no open retry of its reward, of the endpoint with this generation, comes before the delivery `of`. */
export const isFirstOpen = (of: string, generation: string, round = `${of}.round`): Statement.Fragment =>
  literal(`(SELECT 1 FROM retries p WHERE ${isOpenSql("p", of, `${of}.reward`, generation)}
    AND (p.event, p.round) < (${of}.event, ${round}) LIMIT 1) IS NULL`)

/**
 * Deliveries that come before open retries of their reward, because their events are earlier: those wait for them
 * without a time. Of these only the next one may have one. Inside the caller's transaction, which has locked the
 * endpoint, so that the rows stay where they are.
 */
export const holdBack = Effect.fnUntraced(function*(before: ReadonlyArray<Position>) {
  if (before.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE retries r SET next_attempt_at = NULL
    FROM ${positions.unnest(before)}
    CROSS JOIN LATERAL (
      SELECT f.ctid, f.next_attempt_at FROM retries f
      WHERE ${isOpenOfReward("f", "t")} AND (f.event, f.round) > (t.event, t.round)
      ORDER BY f.event, f.round LIMIT 1 ${perRow}
    ) f
    WHERE f.next_attempt_at IS NOT NULL AND r.ctid = f.ctid AND ${expectFewRows}`
})

/**
 * Of each reward's open retries the first one becomes due, unless it has a time: those behind it wait without one.
 * Inside the caller's transaction, which has locked the endpoint, after its other changes of these rows.
 */
export const openFirst = Effect.fnUntraced(function*(
  rewards: ReadonlyArray<Written<typeof rewardsOf>>,
  now: PgTypes.Parameter
) {
  if (rewards.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE retries r SET next_attempt_at = ${now}
    FROM (SELECT DISTINCT * FROM ${rewardsOf.unnest(rewards)}) t
    CROSS JOIN LATERAL (
      SELECT f.ctid, f.next_attempt_at FROM retries f WHERE ${isOpenOfReward("f", "t")}
      ORDER BY f.event, f.round LIMIT 1 ${perRow}
    ) f
    WHERE f.next_attempt_at IS NULL AND r.ctid = f.ctid AND ${expectFewRows}`
})
