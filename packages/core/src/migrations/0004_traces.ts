import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Which trace stored an event, and which made a delivery: null where none was written. See Tracing.ts. */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  `ALTER TABLE spend_event_queue ADD COLUMN traceparent text`,
  `ALTER TABLE deliveries ADD COLUMN traceparent text`
]
