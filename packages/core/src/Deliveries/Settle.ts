import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { equalWithoutIndex } from "../Database/PlannerHints.ts"
import * as Tracing from "../Tracing.ts"

/** How many deliveries one transaction changes: a deleted or moved endpoint may have any number of them. */
const maxSettled = 1_000

/** One batch of one endpoint, inside the caller's transaction. Locks the endpoint, then deliveries. */
export const settleIn = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [endpoint] = yield* sql<Changed>`
    SELECT integrator_id, generation, deleted_at IS NOT NULL AS deleted FROM webhook_endpoints WHERE unsettled
    ORDER BY integrator_id, generation LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`
  if (endpoint === undefined) return false
  yield* Tracing.startDeferred(() => [])(settleOne(endpoint))
  return true
})

interface Changed {
  readonly integratorId: string
  readonly generation: number
  readonly deleted: boolean
}

const settleOne = Effect.fnUntraced(function*(endpoint: Changed) {
  const sql = yield* SqlClient.SqlClient
  const { deleted, integratorId } = endpoint
  const generation = value.int4(endpoint.generation)
  const now = value.timestamptz(yield* Clock.currentTimeMillis)
  const settled = deleted
    ? yield* sql`
      WITH batch AS (
        SELECT event, round FROM deliveries
        WHERE integrator_id = ${integratorId} AND generation = ${generation} AND state = 'pending'
        LIMIT ${value.int4(maxSettled)} FOR NO KEY UPDATE
      )
      UPDATE deliveries d SET state = 'cancelled', next_attempt_at = NULL, claimed_until = NULL FROM batch
      WHERE d.integrator_id = ${integratorId} AND d.event = batch.event AND d.round = batch.round RETURNING 1`
    : yield* sql`
      WITH batch AS (
        SELECT event, round FROM deliveries
        WHERE integrator_id = ${integratorId} AND ${equalWithoutIndex("generation", generation)}
          AND next_attempt_at > '-infinity' AND next_attempt_at > ${now}
        ORDER BY next_attempt_at, event LIMIT ${value.int4(maxSettled)} FOR NO KEY UPDATE
      )
      UPDATE deliveries d SET next_attempt_at = ${now} FROM batch
      WHERE d.integrator_id = ${integratorId} AND d.event = batch.event AND d.round = batch.round RETURNING 1`
  if (settled.length < maxSettled) {
    yield* sql`UPDATE webhook_endpoints SET unsettled = false
      WHERE integrator_id = ${integratorId} AND generation = ${generation}`
  }
})
