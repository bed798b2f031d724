import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What is due stands at the front of an index, behind all that was due since the last vacuum, and each look passes over it: some
 * 30 ns an entry, several times a second. By PostgreSQL's defaults that is a fifth of the table, which only grows. Now it is
 * a hundredth: a vacuum reads the pages that have changed, and the indexes. It would leave the indexes as they are, too,
 * where few pages have changed.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const table of ["deliveries", "rewards"]) {
    yield* sql`ALTER TABLE ${sql(table)} SET (
      autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 20000, vacuum_index_cleanup = on
    )`
  }
})
