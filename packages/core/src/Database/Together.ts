import { Effect } from "effect"
import { SqlClient, Statement } from "effect/sql"

/**
 * Carries out changes of different rows in one statement: one round trip instead of one for each. All see the rows as
 * they were before; one that has to see another's result belongs in a later statement. Callers pass the same changes
 * each time, where there is nothing to change with no rows: each list of changes is another statement to plan.
 */
export const together = Effect.fnUntraced(function*(changes: ReadonlyArray<Statement.Fragment>) {
  if (changes.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const named = changes.flatMap((change, index) => [
    Statement.literal(`${index === 0 ? "WITH" : ","} change_${index} AS (`),
    ...change.segments,
    Statement.literal(")")
  ])
  yield* sql`${Statement.fragment(named)} SELECT`
})
