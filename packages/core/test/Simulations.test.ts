import { value } from "@card-rewards/core/Database"
import { Programs } from "@card-rewards/core/Programs"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { makePermits, type Progress, Simulations } from "@card-rewards/core/Simulations"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { type IntegratorId, ProgramId, UserId } from "@card-rewards/domain/Ids"
import { Simulation, type SimulationRequest } from "@card-rewards/domain/Simulation"
import { instant, parseTimestamp } from "@card-rewards/domain/Time"
import { Enrollment } from "@card-rewards/domain/User"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { moneyLayer } from "./Spending.ts"
import { newIntegrator, startMillis } from "./TestLayer.ts"

const services = Simulations.layer().pipe(Layer.provideMerge(moneyLayer))

const program = ProgramId.make("p")
const groceries = [{ id: "groceries", mccs: ["5411"] }]
const inForce = {
  categories: groceries,
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  tiers: [{ tier: "gold", multiplier: 15_000 }],
  exclusions: { mccs: ["6011"], merchants: [] }
}
const candidate = {
  categories: groceries,
  baseRate: 200,
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  tiers: [{ tier: "gold", multiplier: 20_000 }],
  caps: { perMonth: "10000000", categories: [{ categoryId: "groceries", perMonth: "2000000" }] }
}

const moveClock = Effect.fnUntraced(function*(id: IntegratorId, to: string) {
  yield* (yield* SandboxClock).set(id, instant(parseTimestamp(to) ?? Number.NaN))
})

const put = Effect.fnUntraced(function*(id: IntegratorId, user: string, attributes: object) {
  yield* (yield* Users).put(id, UserId.make(user), Schema.decodeUnknownSync(Enrollment)(attributes))
})

const send = Effect.fnUntraced(function*(
  id: IntegratorId,
  [kind, userId, externalTransactionId, cents, mcc, day, more = {}]: Sent
) {
  yield* (yield* SpendEvents).submit(spendEvent(id, userId, Date.parse(`2026-${day}T00:00:00Z`), {
    kind,
    externalTransactionId,
    amount: usd(cents),
    merchant: { descriptor: "Shop", mcc },
    ...more
  }))
})
type Sent = readonly [kind: string, user: string, id: string, cents: number, mcc: string, day: string, more?: object]

/** November and December of four users. */
const lived = Effect.gen(function*() {
  const id = yield* newIntegrator
  yield* (yield* Programs).publish(id, program, 1, definition(startMillis + 400_000, inForce), [])
  for (const user of ["ann", "bob", "carl", "dave"]) yield* put(id, user, user === "ann" ? { tier: "gold" } : {})
  yield* moveClock(id, "2026-11-12T00:00:00Z")
  yield* put(id, "ann", {})
  yield* moveClock(id, "2026-12-10T00:00:00Z")
  const history: ReadonlyArray<Sent> = [
    // before the simulated period: a gold user's purchase that uses 0.30 of the cap
    ["clearing", "ann", "c0", 500, "5411", "11-05"],
    // the user was gold at the authorization and no longer at the clearing
    ["authorization", "ann", "a1", 10_000, "5812", "11-10"],
    ["clearing", "ann", "c1", 12_000, "5812", "11-15", { authorizationId: "a1" }],
    // 3.00, capped at 1.70; half of it is refunded, which frees half of the cap room
    ["clearing", "ann", "c2", 10_000, "5411", "11-20"],
    ["refund", "ann", "r2", 5_000, "5411", "11-21", { originalTransactionId: "c2" }],
    ["clearing", "ann", "c3", 10_000, "5411", "11-25"],
    ["clearing", "bob", "c4", 10_000, "6011", "11-25"],
    ["clearing", "bob", "c5", 5_000, "4111", "12-02"],
    ["clearing", "carl", "c6", 100, "5411", "11-25"],
    ["clearing", "dave", "c7", 10_000, "5411", "11-25"],
    // after the simulated period, in another currency, and never applied
    ["clearing", "dave", "c8", 10_000, "5812", "12-03"],
    ["clearing", "dave", "c9", 10_000, "5812", "11-25", { amount: { currency: "EUR", amount: "1" } }],
    ["clearing", "dave", "c10", 10_000, "5812", "11-25", { authorizationId: "never" }]
  ]
  for (const sent of history) yield* send(id, sent)
  yield* processAll
  return id
})

const request = (
  changes: object = {},
  from = "2026-11-08T00:00:00Z",
  to = "2026-12-03T00:00:00Z"
): SimulationRequest => ({
  definition: definition(0, { ...candidate, ...changes }),
  from: instant(parseTimestamp(from) ?? Number.NaN),
  to: instant(parseTimestamp(to) ?? Number.NaN)
})

/** Adds an applied purchase of `ann` in each of so many months from the year 1 on. */
const addPurchases = (id: IntegratorId, months: number) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql`INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
        cents, descriptor, mcc, occurred_at, position, purchase_at, refunded_cents)
      SELECT ${id}, 'ann', 'clearing', 'm' || n, 0, now(), 'USD', 10000, 'Shop', '5812', at, 1000 + n, at, 0
      FROM generate_series(0, ${value.int4(months - 1)}) n
      CROSS JOIN LATERAL (SELECT timestamptz '0001-01-01Z' + n * interval '1 month' AS at) m`)

/** A hash of all rows of all tables. */
const stored = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ name: string }>`
    SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`
  return yield* Effect.forEach(tables, ({ name }) =>
    sql<{ content: string }>`SELECT md5(coalesce(string_agg(t::text, ';' ORDER BY t::text), '')) AS content
      FROM ${sql(name)} t`.pipe(Effect.map(([row]) => [name, row?.content])))
})

layer(services)("a simulation", (it) => {
  it.effect("compares what a candidate would have paid with what was paid, and stores nothing", () =>
    Effect.gen(function*() {
      const id = yield* lived
      const before = yield* stored
      const simulation = yield* (yield* Simulations).simulate(id, program, request(), [])
      assert.deepStrictEqual(Schema.encodeSync(Simulation)(simulation), {
        from: "2026-11-08T00:00:00.000Z",
        to: "2026-12-03T00:00:00.000Z",
        asset: "USDC",
        transactions: 7,
        users: 4,
        paid: "9830000",
        wouldPay: "11530000",
        cappedAway: "3800000",
        gaining: 2,
        losing: 1,
        byMonth: [
          { key: "2026-11", paid: "9330000", wouldPay: "10530000" },
          { key: "2026-12", paid: "500000", wouldPay: "1000000" }
        ],
        byCategory: [
          { key: "", paid: "2300000", wouldPay: "7800000" },
          { key: "groceries", paid: "7530000", wouldPay: "3730000" }
        ],
        byTier: [
          { key: "", paid: "8030000", wouldPay: "6730000" },
          { key: "gold", paid: "1800000", wouldPay: "4800000" }
        ]
      })
      assert.deepStrictEqual(yield* stored, before)
    }))

  it.effect("ignores the candidate's effectiveFrom and the limits of publication, and lists every other problem", () =>
    Effect.gen(function*() {
      const id = yield* lived
      const { simulate } = yield* Simulations
      const wrong = request({ asset: "EURe", baseRate: -1 })
      const refused = yield* Effect.flip(simulate(id, program, wrong, ["tier: is not known"]))
      assert.deepInclude(refused, {
        _tag: "ProgramRefused",
        problems: [
          "tier: is not known",
          "baseRate: must be from 0 to 10000",
          "asset: must be USDC, as in the program's earlier versions"
        ]
      })
      const unknown = yield* Effect.flip(simulate(id, ProgramId.make("none"), request({ baseRate: -1 }), []))
      assert.deepInclude(unknown, { _tag: "NotFound", resource: "program", id: "none" })
      const other = yield* newIntegrator
      assert.strictEqual((yield* Effect.flip(simulate(other, program, request(), [])))._tag, "NotFound")
    }))

  it.effect("of a period without purchases is empty", () =>
    Effect.gen(function*() {
      const id = yield* lived
      const simulation = yield* (yield* Simulations).simulate(
        id,
        program,
        request({}, "2026-12-03T00:00:00.001Z", "9999-12-31T23:59:59.999Z"),
        []
      )
      assert.deepInclude(simulation, { transactions: 0, users: 0, paid: 0n, wouldPay: 0n, byMonth: [] })
    }))

  it.effect("reads one snapshot while events are being processed", () =>
    Effect.gen(function*() {
      const id = yield* lived
      const { simulate } = yield* Simulations
      const expected = yield* simulate(id, program, request(), [])
      const started = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      const reports: Array<Progress> = []
      const simulating = yield* Effect.forkChild(simulate(id, program, request(), [], (progress) => {
        reports.push(progress)
        if (reports.length > 1) return Effect.void
        return Effect.andThen(Deferred.succeed(started, undefined), Deferred.await(goOn))
      }))
      yield* Deferred.await(started)
      yield* send(id, ["refund", "ann", "r3", 5_000, "5411", "11-26", { originalTransactionId: "c3" }])
      yield* send(id, ["clearing", "bob", "c11", 10_000, "4111", "11-26"])
      yield* processAll
      yield* Deferred.succeed(goOn, undefined)
      assert.deepStrictEqual(yield* Fiber.join(simulating), expected)
      // c0 and c8 are outside the period and are evaluated because they use cap room
      assert.deepStrictEqual(reports, [{ done: 0, total: 9 }, { done: 9, total: 9 }])
      assert.notDeepEqual(yield* simulate(id, program, request(), []), expected)
    }))

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

  it.effect("run two at a time in all cells of a process together", () =>
    Effect.gen(function*() {
      const permits = makePermits()
      const start = Effect.fnUntraced(function*(onProgress: Effect.Effect<void>) {
        const id = yield* lived
        return yield* Effect.flatMap(Simulations, ({ simulate }) =>
          simulate(id, program, request(), [], () => onProgress)).pipe(
            // the services of another cell
            Effect.provide(Layer.fresh(Simulations.layer(undefined, permits)))
          )
      })
      const fibers: Array<Fiber.Fiber<unknown, unknown>> = []
      for (let count = 0; count < 2; count++) {
        const started = yield* Deferred.make<void>()
        const lengthy = Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
        fibers.push(yield* Effect.forkChild(start(lengthy)))
        yield* Deferred.await(started)
      }
      assert.deepInclude(yield* Effect.flip(start(Effect.void)), { _tag: "Unavailable" })
      yield* Fiber.interruptAll(fibers)
      yield* start(Effect.void)
    }))

  it.effect("fails after its time limit; two run at a time, one of an integrator, and more are refused with 503", () =>
    Effect.gen(function*() {
      const id = yield* lived
      const { simulate } = yield* Simulations
      const start = Effect.fnUntraced(function*(integratorId: IntegratorId) {
        const started = yield* Deferred.make<void>()
        const fiber = yield* Effect.forkChild(simulate(integratorId, program, request(), [], () =>
          Effect.andThen(Deferred.succeed(started, undefined), Effect.never)))
        yield* Deferred.await(started)
        return fiber
      })
      const lengthy = [yield* start(id)]
      const second = yield* Effect.flip(simulate(id, program, request(), []))
      assert.strictEqual(second._tag, "Unavailable")
      assert.include(second.message, "A simulation of this integrator is running")
      lengthy.push(yield* start(yield* lived))
      assert.strictEqual((yield* Effect.flip(simulate(yield* lived, program, request(), [])))._tag, "Unavailable")
      yield* TestClock.adjust(60_000)
      for (const fiber of lengthy) {
        assert.strictEqual((yield* Effect.flip(Fiber.join(fiber)))._tag, "SimulationTooLarge")
      }
      assert.strictEqual((yield* simulate(id, program, request(), [])).transactions, 7)
    }))
})
