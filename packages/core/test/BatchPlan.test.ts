import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { ProgramId, UserId } from "@card-rewards/domain/Ids"
import { definition, spendEvent } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { moneyServices } from "./Spending.ts"
import { newIntegrator, oneSessionLayer, startMillis } from "./TestLayer.ts"

interface Node {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Index Cond"?: string
  readonly Plans?: ReadonlyArray<Node>
}

const nodesOf = (node: Node): ReadonlyArray<Node> => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

const parsePlans = Schema.decodeUnknownSync(Schema.Array(Schema.Struct({ Plan: Schema.Unknown })))

/** The scans of tables in the plans of the session's prepared statements that contain `text`. */
const scansOf = Effect.fnUntraced(function*(text: string) {
  const sql = yield* SqlClient.SqlClient
  const prepared = yield* sql<{ name: string; parameters: number }>`
    SELECT name, cardinality(parameter_types) AS parameters FROM pg_prepared_statements
    WHERE position(${text} in statement) > 0 AND statement NOT LIKE '%pg_prepared_statements%'`
  assert.isAtLeast(prepared.length, 1, text)
  const plans = yield* Effect.forEach(prepared, ({ name, parameters }) => {
    const nulls = Array.from({ length: parameters }, () => "NULL").join(", ")
    return sql`EXPLAIN (FORMAT JSON) EXECUTE ${sql(name)}(${sql.literal(nulls)})`.values
  })
  return plans.flatMap(([row]) => parsePlans(row?.[0]).flatMap(({ Plan }) => nodesOf(Plan as Node))).filter((node) =>
    node["Relation Name"] !== undefined && node["Node Type"] !== "ModifyTable")
})

/** What makes the rows few: in a table with users the user or the arrival. */
const ofUser = /(user_id|arrival) = |ROW\(user_id/

/** The scans that do not use it, and do not name each row's `ctid` either. */
const withoutKey = Effect.fnUntraced(function*(scans: ReadonlyArray<Node>) {
  const sql = yield* SqlClient.SqlClient
  const ofUsers = yield* sql<{ tableName: string }>`SELECT table_name FROM information_schema.columns
    WHERE table_schema = current_schema AND column_name = 'user_id'`
  const tables = new Set(ofUsers.map(({ tableName }) => tableName))
  return scans.flatMap(({ "Index Cond": condition = "none", "Node Type": type, "Relation Name": table = "" }) =>
    type === "Tid Scan" || (tables.has(table) ? ofUser : / = /).test(condition)
      ? []
      : [`${type} of ${table}: ${condition}`])
})

/** A part of each statement of a batch, and the number of scans that it has at least. */
const batchStatements = [["JOIN lanes l ", 2], ["AS has_dependents", 7], ["WITH change_0", 12]] as const

layer(Layer.provideMerge(moneyServices, oneSessionLayer))("a statement planned beside empty tables", (it) => {
  it.effect("finds each row by its key, of ingest and of a batch; beside small ones too", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      const sql = yield* SqlClient.SqlClient
      const users = yield* Users
      const { submit } = yield* SpendEvents
      const { processEvents } = yield* Processing
      yield* (yield* Programs).publish(integratorId, ProgramId.make("p"), 1, definition(startMillis + 400_000), [])
      yield* TestClock.adjust(500_000)
      const eventOf = (userId: UserId, id: string) =>
        spendEvent(integratorId, userId, startMillis + 500_000, { kind: "clearing", externalTransactionId: id })
      const checkInsert = Effect.gen(function*() {
        const scans = yield* scansOf("INSERT INTO spend_events")
        assert.isAtLeast(scans.length, 3)
        assert.deepStrictEqual(yield* withoutKey(scans), [])
      })
      assert.strictEqual((yield* Effect.flip(submit(eventOf(UserId.make("u0"), "t"))))._tag, "UserNotEnrolled")
      yield* checkInsert
      for (const count of [1, 2, 60]) {
        for (let index = 0; index < count; index++) {
          const userId = UserId.make(`u${index}`)
          yield* users.put(integratorId, userId, {})
          yield* submit(eventOf(userId, `t${count}`))
        }
        while ((yield* processEvents) > 0) { /* until all is processed */ }
        yield* checkInsert
        for (const [statement, tables] of batchStatements) {
          const scans = yield* scansOf(statement)
          assert.isAtLeast(scans.length, tables, statement)
          assert.deepStrictEqual(yield* withoutKey(scans), [], statement)
        }
        // every statement is planned again
        yield* sql`ANALYZE`
      }
    }))
})
