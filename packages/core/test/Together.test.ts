import { atVersion } from "@card-rewards/core/Database/PlannerHints"
import { columnList, int8, type RowVersion, rowVersion } from "@card-rewards/core/Database/Table"
import { together } from "@card-rewards/core/Database/Together"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { oneSessionLayer } from "./TestLayer.ts"

const numbers = columnList({ ...rowVersion, n: int8() })

layer(oneSessionLayer)("changes that are made together", (it) => {
  it.effect("are all of them undone where one changes another number of rows than it was given", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TEMPORARY TABLE numbers AS SELECT n::bigint FROM generate_series(1, 3) AS n`
      const read = sql<RowVersion & { n: bigint }>`SELECT ctid, xmin, n FROM numbers ORDER BY n`
      const before = yield* read
      const add = (rows: ReadonlyArray<RowVersion & { readonly n: bigint }>) => ({
        table: "numbers",
        rows: rows.length,
        change: sql`UPDATE numbers e SET n = e.n + t.n FROM ${numbers.unnest(rows)} WHERE ${atVersion("e")}`
      })
      yield* together([sql`INSERT INTO numbers VALUES (10)`, add(before.slice(1))])
      const changed = yield* read
      assert.deepStrictEqual(changed.map(({ n }) => n), [1n, 4n, 6n, 10n])
      const refusal = (rows: ReadonlyArray<RowVersion & { readonly n: bigint }>) =>
        Effect.flip(Effect.sandbox(sql.withTransaction(together([sql`INSERT INTO numbers VALUES (11)`, add(rows)]))))
      // two of the three are at another place by now
      assert.include(String(yield* refusal(before)), "1 of 3 rows of numbers are those that were read")
      // at their places are rows that another transaction wrote
      const rewritten = changed.map((row) => ({ ...row, xmin: row.xmin + 1 }))
      assert.include(String(yield* refusal(rewritten)), "0 of 4 rows of numbers are those that were read")
      assert.deepStrictEqual(yield* read, changed)
    }))
})
