import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What is due stands in an index behind all that was due since the last vacuum, which each look passes over: 10 to 30 ns an
 * entry, several times a second. By PostgreSQL's defaults that may be a fifth of the table, which only grows. Now it is a
 * hundredth, also where so few pages have changed that a vacuum would leave the indexes as they are.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const table of ["deliveries", "rewards"]) {
    yield* sql`ALTER TABLE ${sql(table)} SET (
      autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on
    )`
  }
})
