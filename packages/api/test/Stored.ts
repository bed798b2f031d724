import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * A fingerprint of everything that is stored, by table: the number of rows and the sum of their hashes. Of most rows it
 * has the place and the transaction that wrote it, which takes a sixth of the time of the content. When a key was last
 * used is noted for refused requests too, and does not count.
 */
export const fingerprint = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  if (statement === "") {
    const tables = yield* sql<{ name: string }>`SELECT table_name AS name FROM information_schema.tables
      WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY table_name`
    const content = "(to_jsonb(t) - 'last_used_at')::text"
    statement = tables.map(({ name }) => {
      const row = name === "api_keys" ? content : "ctid::text || xmin::text"
      const sum = `sum(hashtextextended(${row}, 0))`
      return `SELECT '${name}' AS name, count(*) || ' ' || coalesce(${sum}, 0) AS stored FROM "${name}" t`
    }).join(" UNION ALL ")
  }
  const rows = yield* sql.unsafe<{ name: string; stored: string }>(statement)
  return Object.fromEntries(rows.map(({ name, stored }) => [name, stored]))
})

/** The tables are the same in every test. */
let statement = ""
