import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"

/** A table and its quoted column names, separated by commas. */
export interface Table {
  readonly name: string
  readonly columns: string
}

/** All rows of a table as JSON text, which keeps every digit. */
export interface Contents {
  readonly name: string
  readonly rows: string
}

interface Copied {
  readonly tables: ReadonlyArray<Table>
  readonly contents: ReadonlyArray<Contents>
}

/** All tables except the list of migrations; the rows of partitions are those of their tables. */
export const tables = (sql: SqlClient.SqlClient): Effect.Effect<ReadonlyArray<Table>, SqlError.SqlError> =>
  sql<Table>`SELECT table_name AS name, string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position) AS columns
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'effect_sql_migrations'
      AND NOT (SELECT relispartition FROM pg_class WHERE oid = quote_ident(table_name)::regclass)
    GROUP BY table_name ORDER BY table_name`

/** The rows of these columns of these tables. */
export const read = (sql: SqlClient.SqlClient, tables: ReadonlyArray<Table>) =>
  Effect.forEach(tables, Effect.fnUntraced(function*({ columns, name }): Effect.fn.Return<Contents, SqlError.SqlError> {
    const [row] = yield* sql.unsafe<{ rows: string }>(
      `SELECT coalesce(json_agg(t ORDER BY t::text), '[]')::text AS rows FROM (SELECT ${columns} FROM ${name}) t`
    )
    return { name, rows: row?.rows ?? "" }
  }))

/**
 * Copies the rows of `source` into the empty tables of `target`, in the columns that `target` has, and sets its
 * sequences. Both are connections of a superuser. Returns the tables and their rows.
 */
export const copy = Effect.fnUntraced(function*(
  source: SqlClient.SqlClient,
  target: SqlClient.SqlClient
): Effect.fn.Return<Copied, SqlError.SqlError> {
  const copied = yield* tables(target)
  const contents = yield* read(source, copied)
  const sequences = yield* source<{ name: string; last: string }>`SELECT sequencename AS name, last_value::text AS last
    FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL`
  yield* target.withTransaction(Effect.gen(function*() {
    // no triggers and foreign keys, because the rows come table by table
    yield* target`SET LOCAL session_replication_role = replica`
    for (const { name, rows } of contents) {
      yield* target`INSERT INTO ${target(name)}
        SELECT * FROM json_populate_recordset(NULL::${target(name)}, ${rows}::text::json)`
    }
    for (const { last, name } of sequences) yield* target`SELECT setval(${name}::text::regclass, ${last}::text::bigint)`
  }))
  return { tables: copied, contents }
})
