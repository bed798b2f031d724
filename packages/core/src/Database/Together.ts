import { Effect } from "effect"
import { SqlClient, Statement } from "effect/sql"

/** A change of exactly so many rows, which the transaction has read before; another number is a defect. */
export interface ExactChange {
  readonly table: string
  readonly change: Statement.Fragment
  readonly rows: number
}

/** A change of any number of rows, or of exactly so many. */
export type Change = Statement.Fragment | ExactChange

/**
 * Carries out changes of different rows in one statement: one round trip instead of one for each. All see the rows as
 * they were before; one that has to see another's result belongs in a later statement. Each change costs some 40 µs of
 * PostgreSQL, also without rows, and each list of changes is another statement to plan: callers leave out what is
 * seldom there, together, and pass the others each time.
 */
export const together = Effect.fnUntraced(function*(changes: ReadonlyArray<Change>) {
  if (changes.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const named = changes.flatMap((change, index) => [
    Statement.literal(`${index === 0 ? "WITH" : ","} change_${index} AS (`),
    ...("rows" in change ? change.change : change).segments,
    Statement.literal("rows" in change ? " RETURNING true)" : ")")
  ])
  const counted = changes.flatMap((change, index) => "rows" in change ? [{ ...change, index }] : [])
  const counts = counted.map(({ index }) => `(SELECT count(*) FROM change_${index})`).join(", ")
  const [row = []] = yield* sql`${Statement.fragment(named)} SELECT ${sql.literal(counts)}`.values
  for (const [at, { rows, table }] of counted.entries()) {
    if (row[at] !== BigInt(rows)) {
      return yield* Effect.die(new Error(`${row[at]} of ${rows} rows of ${table} are those that were read`))
    }
  }
})
