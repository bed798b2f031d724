import { byTupleId } from "@card-rewards/core/Database/PlannerHints"
import { columnList, int8, tupleId } from "@card-rewards/core/Database/Table"
import { together } from "@card-rewards/core/Database/Together"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { oneSessionLayer } from "./TestLayer.ts"

const numbers = columnList({ ...tupleId, n: int8() })

layer(oneSessionLayer)("changes that are made together", (it) => {
  it.effect("are all of them undone where one changes another number of rows than it was given", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TEMPORARY TABLE numbers AS SELECT n::bigint FROM generate_series(1, 3) AS n`
      const read = sql<{ ctid: number; n: bigint }>`SELECT ctid, n FROM numbers ORDER BY n`
      const before = yield* read
      const add = (rows: ReadonlyArray<{ readonly ctid: number; readonly n: bigint }>) => ({
        rows: rows.length,
        change: sql`UPDATE numbers e SET n = e.n + t.n FROM ${numbers.unnest(rows)} WHERE ${byTupleId("e")}`
      })
      yield* together([sql`INSERT INTO numbers VALUES (10)`, add(before.slice(1))])
      const changed = yield* read
      assert.deepStrictEqual(changed.map(({ n }) => n), [1n, 4n, 6n, 10n])
      // two of the three have other tuple identifiers by now
      const error = yield* Effect.flip(Effect.sandbox(sql.withTransaction(
        together([sql`INSERT INTO numbers VALUES (11)`, add(before)])
      )))
      assert.include(String(error), "changed 1 rows instead of 3")
      assert.deepStrictEqual(yield* read, changed)
    }))
})
