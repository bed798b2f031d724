import { value } from "@card-rewards/core/Database"
import { Simulations } from "@card-rewards/core/Simulations"
import { CandidateRun, type PurchaseRow } from "@card-rewards/core/Simulations/CandidateRun"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { compile } from "@card-rewards/domain/ProgramVersion"
import { instant } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition } from "@card-rewards/testing/Fixtures"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { startMillis } from "../TestLayer.ts"
import { lived, program, request, send, services } from "./Lived.ts"

/** Adds an applied purchase of `ann` in each of so many months from the year 1 on. */
const addPurchases = (id: IntegratorId, months: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql`INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
        cents, descriptor, mcc, occurred_at, position, purchase_at, refunded_cents)
      SELECT ${id}, 'ann', 'clearing', 'm' || n, 0, now(), 'USD', 10000, 'Shop', '5812', at, 1000 + n, at, 0
      FROM generate_series(0, ${value.int4(months - 1)}) n
      CROSS JOIN LATERAL (SELECT timestamptz '0001-01-01Z' + n * interval '1 month' AS at) m`)

describe("what a simulation keeps of one user", () => {
  const caps = { perMonth: `${10n ** 15n}`, categories: [] }
  const version = compile(program, 0, definition(startMillis, { caps, categories: [{ id: "food", mccs: ["5812"] }] }))
  const purchase = {
    kind: "clearing",
    userId: "ann",
    cents: 10_000n,
    mcc: "5411",
    refundedCents: 0n,
    paid: null,
    paidCategory: null,
    tier: null,
    country: null,
    segment: null,
    purchaseAt: startMillis + 500_000
  } as const
  const excessOf = (count: number, changes: (index: number) => Partial<PurchaseRow>): string | undefined => {
    const run = new CandidateRun(version, { from: instant(startMillis), to: instant(startMillis + 1) })
    for (let index = 0; index < count; index++) {
      run.apply({ ...purchase, externalTransactionId: `${index}`, ...changes(index) })
    }
    return run.excess
  }
  const message = /^a user has more than 100000 purchases that are refunded, or months and categories$/

  it("is at most 100,000 purchases whose refunds are yet to come", () => {
    const refunded = { refundedCents: 5_000n }
    assert.isUndefined(excessOf(100_000, () => refunded))
    assert.match(excessOf(100_001, () => refunded) ?? "", message)
    assert.isUndefined(excessOf(100_002, (index) => ({ ...refunded, userId: index < 50_001 ? "ann" : "bob" })))
  })

  it("is at most 100,000 caps: one of each month, and one of each category in it", () => {
    const inMonth = (index: number) => ({ mcc: "5812", purchaseAt: Date.UTC(2027, index) })
    assert.isUndefined(excessOf(50_000, inMonth))
    assert.match(excessOf(50_001, inMonth) ?? "", message)
  })
})

layer(services)("a simulation", (it) => {
  it.effect("is refused beyond the limit of purchases, and runs at the limit", () =>
    Effect.gen(function*() {
      const id = yield* lived
      const withLimit = (transactions: number) =>
        Effect.flatMap(Simulations, ({ simulate }) => simulate(id, program, request(), [])).pipe(
          Effect.provide(Simulations.layer({ transactions, millis: 60_000 })),
          Effect.exit
        )
      assert.isTrue(Exit.isSuccess(yield* withLimit(9)))
      const refused = yield* Effect.flip(yield* withLimit(8))
      assert.deepInclude(refused, { _tag: "SimulationTooLarge" })
    }))

  it.effect("is refused beyond as many refunds of its purchases, and does not count refunds of others", () =>
    Effect.gen(function*() {
      const id = yield* lived
      yield* addPurchases(id, 1)
      const simulate = Effect.flatMap(Simulations, ({ simulate }) => simulate(id, program, request(), [])).pipe(
        Effect.provide(Simulations.layer({ transactions: 9, millis: 60_000 }))
      )
      const expected = yield* simulate
      const refund = (index: number, originalTransactionId: string) =>
        send(id, ["refund", "ann", `f${index}`, 1, "5411", "11-26", { originalTransactionId }])
      for (let index = 0; index < 10; index++) yield* refund(index, "m0")
      yield* processAll
      assert.deepStrictEqual(yield* simulate, expected)
      // one is there already
      for (let index = 10; index < 18; index++) yield* refund(index, "c2")
      assert.deepStrictEqual(yield* simulate, expected, "they are not applied yet")
      yield* processAll
      assert.strictEqual((yield* simulate).transactions, 7)
      yield* refund(18, "c2")
      assert.strictEqual((yield* simulate).transactions, 7, "it is not applied yet")
      yield* processAll
      const refused = yield* Effect.flip(simulate)
      assert.deepInclude(refused, { _tag: "SimulationTooLarge" })
      assert.include(refused.message, "more than 9 refunds")
    }))

  it.effect("is refused beyond 10,000 months, and runs with as many", () =>
    Effect.gen(function*() {
      const id = yield* lived
      yield* addPurchases(id, 10_000)
      const { simulate } = yield* Simulations
      const before = request({}, "0001-01-01T00:00:00Z", "0834-05-01T00:00:00Z")
      assert.lengthOf((yield* simulate(id, program, before, [])).byMonth, 10_000)
      const all = request({}, "0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z")
      const refused = yield* Effect.flip(Effect.asVoid(simulate(id, program, all, [])))
      assert.deepInclude(refused, { _tag: "SimulationTooLarge" })
      assert.include(refused.message, "10000 months")
    }))
})
