import { columns, value } from "@card-rewards/core/Database"
import { Programs } from "@card-rewards/core/Programs"
import { Quotes } from "@card-rewards/core/Quotes"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { Users } from "@card-rewards/core/Users"
import { type IntegratorId, ProgramId, UserId } from "@card-rewards/domain/Ids"
import { QuoteRequest } from "@card-rewards/domain/Quote"
import { instant, monthOf } from "@card-rewards/domain/Time"
import { definition, usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { TestClock } from "effect/testing"
import { measuredAlone } from "./Reads.ts"
import { moneyServices } from "./Spending.ts"
import { newIntegrator, oneSessionLayer, startMillis } from "./TestLayer.ts"

const services = moneyServices.pipe(Layer.provideMerge(oneSessionLayer))

const ann = UserId.make("ann")
const quotedPrograms = ["p0", "p1", "p2"]
const rowsPerProgram = 2_000

/** Five programs; the last two exclude the purchase. Returns an integrator with its clock after their start. */
const setUp = Effect.gen(function*() {
  const integratorId = yield* newIntegrator
  const publish = (programId: string, changes: object) =>
    Effect.flatMap(Programs, (programs) =>
      programs.publish(integratorId, ProgramId.make(programId), 1, definition(startMillis + 400_000, changes), []))
  for (const programId of quotedPrograms) {
    yield* publish(programId, {
      categories: [{ id: "c7", mccs: ["5411"] }],
      caps: { perMonth: "100000000", categories: [{ categoryId: "c7", perMonth: "1000" }] }
    })
  }
  for (const programId of ["p3", "p4"]) yield* publish(programId, { exclusions: { mccs: ["5411"], merchants: [] } })
  yield* (yield* SandboxClock).set(integratorId, instant(startMillis + 500_000))
  yield* (yield* Users).put(integratorId, ann, {})
  return integratorId
})

/** Adds 1 unit in each of `c1` to `c2000` of each of the five programs, in this month and another one. */
const addUsage = (integratorId: IntegratorId) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql`INSERT INTO cap_usage (integrator_id, user_id, month, program_id, category_id, earned)
      SELECT ${integratorId}, 'ann', month, 'p' || p, 'c' || c, 1
      FROM unnest(${columns.int4([0, 1].map((more) => monthOf(startMillis) + more))}) AS month,
        generate_series(0, 4) AS p, generate_series(1, ${value.int4(rowsPerProgram)}) AS c`)

/** Also returns how many rows each statement about cap usage returned. */
const withReturnedRows = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  const queries: Array<Statement.Statement<unknown>> = []
  const result = yield* Effect.provideService(effect, Statement.CurrentTransformer, (statement) =>
    Effect.sync(() => {
      if (statement.compile()[0].includes("cap_usage")) queries.push(statement)
      return statement
    }))
  return [result, yield* Effect.forEach(queries, (query) => Effect.map(query.values, ({ length }) => length))] as const
})

const quote = Effect.fnUntraced(function*(integratorId: IntegratorId, mcc: string) {
  const purchase = { amount: usd(10_000), merchant: { descriptor: "Shop", mcc } }
  const quotes = yield* (yield* Quotes).quote(integratorId, ann, Schema.decodeUnknownSync(QuoteRequest)(purchase))
  return quotes.map(({ amount, explanation, programId }) => ({ programId, amount, caps: explanation.caps }))
})

layer(services)("a quote", (it) => {
  it.effect("reads and returns what its caps need, whatever else the user has earned", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const unused = yield* quote(integratorId, "5411")
      assert.deepStrictEqual(unused.map(({ amount }) => amount), ["1000", "1000", "1000"])
      yield* addUsage(integratorId)
      const read = TestClock.withLive(measuredAlone(quote(integratorId, "5411")))
      const [[quotes, reads], returned] = yield* withReturnedRows(read)
      const month = { scope: "month" as const, perMonth: "100000000", usedBefore: "2000", left: "99998000" }
      const category = { scope: "category" as const, categoryId: "c7", perMonth: "1000", usedBefore: "1", left: "999" }
      assert.deepStrictEqual(
        quotes,
        quotedPrograms.map((programId) => ({ programId, amount: "999", caps: [month, category] }))
      )
      assert.deepStrictEqual(returned, [quotedPrograms.length])
      assert.isAtMost(reads.rows, quotedPrograms.length * rowsPerProgram + 100)
      const outside = yield* quote(integratorId, "5812")
      assert.lengthOf(outside, 5)
      assert.deepInclude(outside[0], { programId: "p0", amount: "1000000", caps: [month] })
    }))
})
