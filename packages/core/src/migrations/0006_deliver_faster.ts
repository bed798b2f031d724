import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What delivering costs: see the comments. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  // An attempt is written by the transaction that has just changed its delivery, found by the same key: to look each up once
  // more, and to lock it once more, was a third of what recording cost. The audit looks for attempts without a delivery.
  `ALTER TABLE delivery_attempts DROP CONSTRAINT delivery_attempts_integrator_id_event_round_fkey`,
  // Deliveries of one moment stand side by side, and are claimed together: with room for all of their new versions no index
  // has to change.
  `ALTER TABLE deliveries SET (fillfactor = 45)`
]
