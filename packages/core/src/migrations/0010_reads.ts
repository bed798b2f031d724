import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Indexes for reads whose cost must not grow with an integrator's history. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  // the events of one kind in their order; see Events.ts
  `CREATE INDEX events_by_kind ON events (integrator_id, kind, event)`,
  // the last attribute record stored up to an instant; see Users/AttributeHistory.ts
  `CREATE INDEX user_attributes_by_time ON user_attributes (integrator_id, user_id, stored_at, arrival)`
]
