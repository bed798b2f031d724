import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * The requests for a lock on a table that others keep waiting. Tables of databases with one template have one OID, so
 * that only those of this database count.
 */
export const waitingFor = Effect.fnUntraced(function*(table: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE datname = current_database() AND relation = ${table}::regclass AND NOT granted`
})
