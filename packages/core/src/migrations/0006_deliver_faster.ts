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
  // Pending is what has a time for its next attempt, and only that can be claimed: what is claimed, waits or is due is found
  // without its state, so that the index of an endpoint's deliveries by state never fits.
  `ALTER TABLE deliveries
    ADD CONSTRAINT deliveries_pending_check CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL)),
    ADD CONSTRAINT deliveries_claimed_check CHECK (claimed_until IS NULL OR state = 'pending')`,
  `DROP INDEX deliveries_due, deliveries_of_reward`,
  `CREATE INDEX deliveries_due ON deliveries (integrator_id, next_attempt_at, event) WHERE next_attempt_at IS NOT NULL`,
  `CREATE INDEX deliveries_of_reward ON deliveries (integrator_id, reward, event)
    WHERE next_attempt_at IS NOT NULL AND reward IS NOT NULL`,
  // Deliveries of one moment stand side by side, and are claimed together: with room for all of their new versions no index
  // has to change.
  `ALTER TABLE deliveries SET (fillfactor = 45)`
]
