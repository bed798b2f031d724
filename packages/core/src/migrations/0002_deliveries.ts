import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Lists of deliveries page by page, and endpoints whose change is still to be carried over to their deliveries. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  // deleted, or moved to another URL: its pending deliveries are to be cancelled, or to become due
  `ALTER TABLE webhook_endpoints ADD COLUMN unsettled boolean NOT NULL DEFAULT false`,
  `CREATE INDEX webhook_endpoints_unsettled ON webhook_endpoints (integrator_id, generation) WHERE unsettled`,
  `CREATE INDEX deliveries_listed ON deliveries (integrator_id, generation, state, created_at, event, round)`
]
