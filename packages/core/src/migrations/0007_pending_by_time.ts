import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Pending is what has a time for its next attempt, and only that can be claimed. Each index fits those statements only that
 * name its condition, whatever the planner knows of the table: what is due is asked for with `next_attempt_at > '-infinity'`,
 * what a reward has pending with `next_attempt_at IS NOT NULL`, and neither with the state, by which an endpoint's are listed.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  `ALTER TABLE deliveries
    ADD CONSTRAINT deliveries_pending_check CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL)),
    ADD CONSTRAINT deliveries_claimed_check CHECK (claimed_until IS NULL OR state = 'pending')`,
  `DROP INDEX deliveries_due, deliveries_of_reward`,
  `CREATE INDEX deliveries_due ON deliveries (integrator_id, next_attempt_at, event) WHERE next_attempt_at > '-infinity'`,
  `CREATE INDEX deliveries_of_reward ON deliveries (integrator_id, reward, event)
    WHERE next_attempt_at IS NOT NULL AND reward IS NOT NULL`
]
