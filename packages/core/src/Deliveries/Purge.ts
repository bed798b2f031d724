import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { retriesOfEndpoint } from "../Database/PlannerHints.ts"
import { isOwned } from "../Slots.ts"

/** Rows that one transaction removes: a deleted endpoint may have any number of them. */
const maxPurged = 1_000

/**
 * Removes a batch of one deleted endpoint's retries, and at last its replays and the endpoints that were deleted before
 * it, inside the caller's transaction.
 */
export const purge = Effect.fnUntraced(function*(now: number) {
  const sql = yield* SqlClient.SqlClient
  const [endpoint] = yield* sql<{ integratorId: string; generation: number }>`
    SELECT integrator_id, generation FROM webhook_endpoints
    WHERE deleted_at IS NOT NULL AND work_at <= ${value.timestamptz(now)} AND ${isOwned("integrator_id")}
    ORDER BY work_at, integrator_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`
  if (endpoint === undefined) return false
  const { integratorId } = endpoint
  const generation = value.int4(endpoint.generation)
  const limit = sql`LIMIT ${value.int4(maxPurged)}`
  const select = (which: "first" | "repeated", order: string) =>
    sql`(SELECT r.ctid FROM retries r
      WHERE ${sql.literal(retriesOfEndpoint("r", which))} = (${generation}, ${value.text(integratorId)})
      ORDER BY r.state, ${sql.literal(order)} ${limit})`
  const purged = yield* sql`
    -- in the order of indexes, so that no plan reads more; the rows stay where they are, as the endpoint is locked
    DELETE FROM retries WHERE ctid = ANY(ARRAY(
      ${select("first", "r.event")} UNION ALL ${select("repeated", "r.created_at")} ${limit}
    )) RETURNING 1`
  if (purged.length < maxPurged) {
    yield* sql`DELETE FROM replays WHERE integrator_id = ${integratorId} AND generation = ${generation}`
    yield* sql`UPDATE webhook_endpoints SET work_at = NULL
      WHERE integrator_id = ${integratorId} AND generation = ${generation}`
    // the next endpoint numbers on from the last one; those before have nothing left
    yield* sql`DELETE FROM webhook_endpoints WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM webhook_endpoints WHERE integrator_id = ${integratorId} AND generation < ${generation}
          AND deleted_at IS NOT NULL AND work_at IS NULL ORDER BY generation ${limit}
      ))`
  }
  return true
})

/** Creates and drops partitions of the attempts, by functions of the schema, in two transactions. */
export const keepAttempts = Effect.fnUntraced(function*(days: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT create_attempts_partitions()`
  yield* sql`SELECT keep_delivery_attempts(${value.int4(days)} * interval '1 day')`
})
