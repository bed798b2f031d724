import type { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { perRow } from "../Database/PlannerHints.ts"
import { columnList, int4, int8, nullable, text, type Written } from "../Database/Table.ts"

const positions = columnList({
  integrator_id: text(),
  generation: int4(),
  reward: nullable(int8()),
  event: int8(),
  round: int4()
})
const rewardsOf = positions.pick("integrator_id", "generation", "reward")

/** A delivery's position in the order of a reward of an endpoint. */
export type Position = Written<typeof positions>

/**
 * Whether no open retry of its reward, of the endpoint with this generation, comes before the delivery with this alias.
 * With a `LIMIT` it reads the reward's own rows alone, whatever the planner knows of the table: those that deleted
 * endpoints have left are not among them.
 */
export const isFirstOpen = (alias: string, generation: string, round = `${alias}.round`): Statement.Fragment =>
  Statement.fragment([Statement.literal(`(SELECT 1 FROM retries p WHERE p.integrator_id || '' = ${alias}.integrator_id
    AND p.reward = ${alias}.reward AND p.generation + 0 = ${generation} AND p.state = 'open'
    AND (p.event, p.round) < (${alias}.event, ${round}) LIMIT 1) IS NULL`)])

/**
 * Deliveries that come before open retries of their reward, because their events are earlier: those wait for them
 * without a time. Inside the caller's transaction.
 */
export const holdBack = Effect.fnUntraced(function*(before: ReadonlyArray<Position>) {
  if (before.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE retries r SET next_attempt_at = NULL
    FROM ${positions.unnest(before)}
    WHERE r.integrator_id || '' = t.integrator_id AND r.reward = t.reward AND r.generation + 0 = t.generation
      AND r.state = 'open' AND (r.event, r.round) > (t.event, t.round) AND r.next_attempt_at IS NOT NULL`
})

/**
 * Of each reward's open retries the first one becomes due, unless it has a time: those behind it wait without one.
 * Inside the caller's transaction, after its other changes of these rows.
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
      SELECT f.integrator_id, f.event, f.round, f.next_attempt_at FROM retries f
      WHERE f.integrator_id || '' = t.integrator_id
        AND f.reward = t.reward AND f.generation + 0 = t.generation AND f.state = 'open'
      ORDER BY f.event, f.round LIMIT 1 ${perRow}
    ) f
    WHERE f.next_attempt_at IS NULL AND r.integrator_id = f.integrator_id AND r.event = f.event AND r.round = f.round`
})
