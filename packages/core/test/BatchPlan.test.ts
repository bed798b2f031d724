import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { ProgramId, UserId } from "@card-rewards/domain/Ids"
import { definition, spendEvent } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { moneyLayer } from "./Spending.ts"
import { newIntegrator, startMillis } from "./TestLayer.ts"

interface Node {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Index Cond"?: string
  readonly Plans?: ReadonlyArray<Node>
}

const nodesOf = (node: Node): ReadonlyArray<Node> => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

const parsePlans = Schema.decodeUnknownSync(Schema.Array(Schema.Struct({ Plan: Schema.Unknown })))

layer(moneyLayer)("the statement that writes a batch", (it) => {
  it.effect("finds each row by its key, although it is planned while the tables are empty", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      const userId = UserId.make("u1")
      yield* (yield* Users).put(integratorId, userId, {})
      yield* (yield* Programs).publish(integratorId, ProgramId.make("p"), 1, definition(startMillis + 400_000), [])
      yield* TestClock.adjust(500_000)
      yield* (yield* SpendEvents).submit(
        spendEvent(integratorId, userId, startMillis + 500_000, { kind: "clearing", externalTransactionId: "c1" })
      )
      const { processEvents } = yield* Processing
      const sql = yield* SqlClient.SqlClient
      const plans = yield* sql.withTransaction(Effect.gen(function*() {
        while ((yield* processEvents) > 0) { /* until all is processed */ }
        const prepared = yield* sql<{ name: string; parameters: number }>`
          SELECT name, cardinality(parameter_types) AS parameters FROM pg_prepared_statements
          WHERE statement LIKE 'WITH change_0%'`
        return yield* Effect.forEach(prepared, ({ name, parameters }) => {
          const nulls = Array.from({ length: parameters }, () => "NULL").join(", ")
          return sql`EXPLAIN (FORMAT JSON) EXECUTE ${sql(name)}(${sql.literal(nulls)})`.values
        })
      }))
      assert.isAtLeast(plans.length, 1)
      for (const [row] of plans) {
        const [top] = parsePlans(row?.[0])
        const scans = nodesOf(top?.Plan as Node).filter((node) =>
          node["Relation Name"] !== undefined && !["ModifyTable", "Tid Scan"].includes(node["Node Type"]))
        assert.isAtLeast(scans.length, 8)
        const whole = scans.filter((node) => node["Index Cond"] === undefined)
        assert.deepStrictEqual(whole.map((node) => [node["Node Type"], node["Relation Name"]]), [])
      }
    }))
})
