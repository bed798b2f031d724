import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** What an effect read of the schema's tables and indexes. */
export interface Reads {
  /** Rows that scans of tables returned, and entries that scans of indexes returned. */
  readonly rows: number
  /** Accesses to pages of tables and indexes, including pages with dead entries only. */
  readonly pages: number
}

/** Runs an effect; also returns what its statements read. Dies where they read nothing: another session ran them. */
const counted = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  // the counts of the session include reads before the effect that are not reported yet
  const before = yield* counts
  const result = yield* effect
  const after = yield* counts
  const reads: Reads = { rows: after.rows - before.rows, pages: after.pages - before.pages }
  if (reads.pages === 0) return yield* Effect.die(new Error("this session has read nothing"))
  return [result, reads] as const
})

/** Runs an effect in a transaction; also returns what its statements read. Other sessions' reads do not count. */
export const measured = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(counted(effect)))

/** The same for an effect whose transactions are its own, or a batch's, over a layer of one session. */
export const measuredAlone = counted

/** What sessions have reported, and what this one has not reported yet. */
const counts = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Reads>`
    SELECT sum(pg_stat_get_tuples_returned(oid) + pg_stat_get_xact_tuples_returned(oid))::float8 AS rows,
      sum(pg_stat_get_blocks_fetched(oid) + pg_stat_get_xact_blocks_fetched(oid))::float8 AS pages
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')`
  return row ?? { rows: 0, pages: 0 }
})
