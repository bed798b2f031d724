import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * The index of what is due serves only who asks for a time: a plan made while there were few deliveries could otherwise look
 * one up there among all that are due.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`DROP INDEX deliveries_due`
  yield* sql`CREATE INDEX deliveries_due ON deliveries (integrator_id, next_attempt_at, event)
    WHERE state = 'pending' AND next_attempt_at IS NOT NULL`
})
