import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { processEvents, setUp } from "./Quarantined.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

/** Tables of which a batch updates rows without changing an indexed column, and the key of a row within its user. */
const tables = { spend_events: "external_transaction_id", cap_usage: "category_id", user_balances: "asset" }

const processAll = Effect.repeat(processEvents, { while: (units) => units > 0 })

/** The page of each of an integrator's rows. */
const pagesOf = Effect.fnUntraced(function*(table: keyof typeof tables, integratorId: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ key: string; page: number }>`
    SELECT user_id || ' ' || ${sql(tables[table])} AS key, (ctid::text::point)[0]::int AS page
    FROM ${sql(table)} WHERE integrator_id = ${integratorId}`
  return new Map(rows.map(({ key, page }) => [key, page]))
})

layer(moneyLayer)("the rows that a batch updates", (it) => {
  for (const table of ["spend_events", "cap_usage", "user_balances"] as const) {
    it.effect(`stay in their page of ${table}, where it fills the page at one time: no index has to change`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(startMillis)
        const { integratorId, send, userIds } = yield* setUp({ users: 100, upcoming: 49 })
        const sendAll = Effect.forEach(userIds, (userId) => Effect.replicateEffect(send({}, userId), 4), {
          concurrency: 20
        })
        // the first events insert what the next ones update
        yield* sendAll
        yield* processAll
        yield* sendAll
        const before = yield* pagesOf(table, integratorId)
        yield* processAll
        const after = yield* pagesOf(table, integratorId)
        assert.sameMembers([...after.keys()], [...before.keys()])
        const moved = [...after].filter(([key, page]) => before.get(key) !== page)
        assert.isAtMost(moved.length, after.size / 10)
      }))
  }
})
