import { makePermits, type Progress, Simulations } from "@card-rewards/core/Simulations"
import { type IntegratorId, ProgramId } from "@card-rewards/domain/Ids"
import { Simulation } from "@card-rewards/domain/Simulation"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Queue, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { lived, program, request, send, services } from "./Simulations/Lived.ts"
import { newIntegrator } from "./TestLayer.ts"

/** A hash of all rows of all tables. */
const stored = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ name: string }>`
    SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`
  return yield* Effect.forEach(tables, ({ name }) =>
    sql<{ content: string }>`SELECT md5(coalesce(string_agg(t::text, ';' ORDER BY t::text), '')) AS content
      FROM ${sql(name)} t`.pipe(Effect.map(([row]) => [name, row?.content])))
})

/** The first name that is another one. */
const takeOther = (names: Queue.Queue<string>, name: string) =>
  Effect.repeat(Queue.take(names), { until: (one) => one !== name })

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

  it.effect("applies each refund once, also where another user has a purchase of the same id", () =>
    Effect.gen(function*() {
      const id = yield* lived
      const { simulate } = yield* Simulations
      // the first refund of c2 frees a part of the cap for c3, the second one comes after that
      yield* send(id, ["refund", "ann", "r3", 1_000, "5411", "11-26", { originalTransactionId: "c2" }])
      yield* processAll
      const before = yield* simulate(id, program, request(), [])
      yield* send(id, ["clearing", "bob", "c2", 10_000, "4111", "11-20"])
      yield* send(id, ["refund", "bob", "r2", 10_000, "4111", "11-21", { originalTransactionId: "c2" }])
      yield* processAll
      const after = yield* simulate(id, program, request(), [])
      assert.deepStrictEqual(after, { ...before, transactions: before.transactions + 1 })
    }))

  it.effect("frees cap room at each refund of a purchase", () =>
    Effect.gen(function*() {
      const id = yield* lived
      const { simulate } = yield* Simulations
      const before = yield* simulate(id, program, request(), [])
      // what the second refund of c2 takes off its 0.85 is left for c11
      yield* send(id, ["refund", "ann", "r3", 1_000, "5411", "11-26", { originalTransactionId: "c2" }])
      yield* send(id, ["clearing", "ann", "c11", 10_000, "5411", "11-27"])
      yield* processAll
      const { transactions, wouldPay } = yield* simulate(id, program, request(), [])
      assert.deepStrictEqual([transactions, wouldPay], [before.transactions + 1, before.wouldPay])
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

  it.effect("run two at a time in all cells of a process together, in the order of their requests", () =>
    Effect.gen(function*() {
      const waiting = yield* Queue.unbounded<void>()
      // the time limit begins before
      const observed = Effect.andThen(Effect.yieldNow, Queue.offer(waiting, undefined))
      const takePermit = Effect.andThen(observed, makePermits())
      const began = yield* Queue.unbounded<string>()
      // they set the clock
      const ids = yield* Effect.all(Array.from({ length: 5 }, () => lived))
      /** A simulation of another cell's services that runs until it is told to end. */
      const start = Effect.fnUntraced(function*(name: string) {
        const id = ids.pop()
        assert.isDefined(id)
        const end = yield* Deferred.make<void>()
        const simulating = Effect.flatMap(Simulations, ({ simulate }) =>
          simulate(id, program, request(), [], () =>
            Effect.andThen(Queue.offer(began, name), Deferred.await(end))))
        const fiber = yield* Effect.forkChild(
          Effect.provide(simulating, Layer.fresh(Simulations.layer(undefined, takePermit)))
        )
        yield* Queue.take(waiting)
        return { fiber, end: Deferred.succeed(end, undefined) }
      })
      const one = yield* start("one")
      yield* start("two")
      const three = yield* start("three")
      yield* TestClock.adjust(20_000)
      yield* start("four")
      assert.sameMembers(yield* Queue.takeN(began, 2), ["one", "two"])
      yield* TestClock.adjust(10_000)
      assert.deepInclude(yield* Effect.flip(Fiber.join(three.fiber)), { _tag: "Unavailable" })
      yield* start("five")
      yield* one.end
      yield* Fiber.await(one.fiber)
      assert.strictEqual(yield* takeOther(began, "one"), "four")
    }))

  it.effect("fails after its time limit; of an integrator one runs, and another is refused with 503", () =>
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
      yield* TestClock.adjust(60_000)
      for (const fiber of lengthy) {
        assert.strictEqual((yield* Effect.flip(Fiber.join(fiber)))._tag, "SimulationTooLarge")
      }
      assert.strictEqual((yield* simulate(id, program, request(), [])).transactions, 7)
    }))
})
