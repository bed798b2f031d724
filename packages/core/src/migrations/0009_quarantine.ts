import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Integrators whose part of a joint batch failed: their stored events are processed apart from all others' until that
 * works again. All times are real time. See Processing/Quarantine.ts.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  `CREATE TABLE quarantine (
    integrator_id text PRIMARY KEY REFERENCES integrators,
    reason text NOT NULL CHECK (reason IN ('behind', 'failing', 'locked')),
    error text NOT NULL CHECK (length(error) <= 1000),
    -- attempts that failed, the joint batch among them
    failures integer NOT NULL CHECK (failures > 0),
    since timestamptz NOT NULL,
    -- while an attempt is under way: when its lease ends
    next_attempt_at timestamptz NOT NULL
  )`,
  `CREATE INDEX quarantine_next_attempt ON quarantine (next_attempt_at)`
]
