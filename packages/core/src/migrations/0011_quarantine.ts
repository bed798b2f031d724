import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Integrators whose stored events are processed apart from the others' and retried after a pause. Times are real. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE quarantine (
    integrator_id text PRIMARY KEY REFERENCES integrators,
    reason text NOT NULL CHECK (reason IN ('behind', 'failing', 'locked')),
    error text NOT NULL CHECK (length(error) <= 1000),
    failures integer NOT NULL,
    since timestamptz NOT NULL,
    next_attempt_at timestamptz NOT NULL
  )`
})
