import * as Database from "@card-rewards/core/Database"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { HandlerSlots } from "../src/Pipeline/HandlerSlots.ts"

const [flood, other] = [IntegratorId.make("flood"), IntegratorId.make("other")]

const maxOfOne = 4
const limits = { all: 8, ofOne: maxOfOne }

const fork = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

it.effect("one integrator's handlers run a few at a time, in order, and another one's at once", () =>
  Effect.gen(function*() {
    const slots = yield* HandlerSlots.make(limits)
    const started: Array<number> = []
    const ends = yield* Effect.forEach(Array.from({ length: 3 * maxOfOne }), () => Deferred.make<void>())
    const fibers = yield* Effect.forEach(ends, (end, index) =>
      fork(slots.run(flood, Effect.andThen(Effect.sync(() => started.push(index)), Deferred.await(end)))))
    assert.strictEqual(started.length, maxOfOne)
    yield* slots.run(other, Effect.void)
    for (const [index, end] of ends.entries()) {
      yield* Deferred.succeed(end, undefined)
      const fiber = fibers[index]
      if (fiber !== undefined) yield* Fiber.join(fiber)
    }
    assert.deepStrictEqual(started, ends.map((_, index) => index))
  }))

it.effect("integrators take turns where the handlers of all are as many as may run", () =>
  Effect.gen(function*() {
    const slots = yield* HandlerSlots.make({ all: 3, ofOne: 2 })
    const started: Array<string> = []
    const ends: Array<Deferred.Deferred<void>> = []
    const start = Effect.fnUntraced(function*(name: string, count: number) {
      for (let left = count; left > 0; left--) {
        const end = yield* Deferred.make<void>()
        const handler = Effect.andThen(Effect.sync(() => ends.push(end) && started.push(name)), Deferred.await(end))
        yield* fork(slots.run(IntegratorId.make(name), handler))
      }
    })
    const endFirst = Effect.andThen(
      Effect.suspend(() => Deferred.succeed(ends.shift() ?? assert.fail("none runs"), undefined)),
      Effect.repeat(Effect.yieldNow, { times: 20 })
    )
    yield* start("a", 4)
    yield* start("b", 4)
    yield* start("c", 1)
    assert.deepStrictEqual(started, ["a", "a", "b"])
    for (let left = 6; left > 0; left--) yield* endFirst
    assert.strictEqual(started.join(""), "aabbcabab")
    assert.lengthOf(ends, 3)
  }))

it.effect("a request that is interrupted while it waits, or when its turn comes, keeps no slot", () =>
  Effect.gen(function*() {
    for (const [limits, waiter] of [[{ all: 8, ofOne: 4 }, flood], [{ all: 4, ofOne: 4 }, other]] as const) {
      const slots = yield* HandlerSlots.make(limits)
      const runAll = (handler: Effect.Effect<void>) =>
        Effect.forEach(Array.from({ length: maxOfOne }), () => fork(slots.run(flood, handler)))
      for (let yields = -1; yields < 6; yields++) {
        const end = yield* Deferred.make<void>()
        const running = yield* runAll(Deferred.await(end))
        const waiting = yield* fork(slots.run(waiter, Effect.never))
        if (yields < 0) yield* Fiber.interrupt(waiting)
        const next = yield* fork(slots.run(flood, Effect.void))
        Deferred.doneUnsafe(end, Effect.void)
        for (let turn = 0; turn < yields; turn++) yield* Effect.yieldNow
        yield* Fiber.interrupt(waiting)
        yield* Fiber.joinAll([...running, next])
        let started = 0
        const again = yield* Deferred.make<void>()
        const all = yield* runAll(Effect.andThen(Effect.sync(() => started++), Deferred.await(again)))
        assert.strictEqual(started, maxOfOne, `${yields}`)
        Deferred.doneUnsafe(again, Effect.void)
        yield* Fiber.joinAll(all)
      }
    }
  }))

it.effect("the time for which a request waits counts towards its deadline at the database", () =>
  Effect.gen(function*() {
    const slots = yield* HandlerSlots.make(limits)
    const end = yield* Deferred.make<void>()
    yield* Effect.forEach(Array.from({ length: maxOfOne }), () => fork(slots.run(flood, Deferred.await(end))))
    const waiting = yield* Effect.forkChild(
      Effect.flip(slots.run(flood, Database.withinRequestDeadline(Effect.never))),
      { startImmediately: true }
    )
    yield* TestClock.adjust(Database.unavailableAfterMillis)
    Deferred.doneUnsafe(end, Effect.void)
    assert.strictEqual((yield* Fiber.join(waiting))._tag, "Unavailable")
  }))

it.effect("where none ends, all that wait are refused in time, however many of one integrator", () =>
  Effect.gen(function*() {
    const slots = yield* HandlerSlots.make({ all: 2, ofOne: 1 })
    // it does not end at its deadline, as a statement that cannot be cancelled
    const ends = yield* Deferred.make<void>()
    const integrators = ["a", "b", "c", "d"].map((name) => IntegratorId.make(name))
    const request = (integratorId: IntegratorId) => fork(Effect.flip(slots.run(integratorId, Deferred.await(ends))))
    for (const one of integrators) yield* request(one)
    yield* TestClock.adjust(1_000)
    const later = yield* Effect.forEach(Array.from({ length: 10 }), () => request(flood))
    yield* TestClock.adjust(Database.unavailableAfterMillis)
    for (const one of later) assert.strictEqual(one.pollUnsafe()?._tag, "Success")
    Deferred.doneUnsafe(ends, Effect.void)
    yield* slots.run(flood, Effect.void)
    const started: Array<string> = []
    const all = integrators.map((one) => slots.run(one, Effect.sync(() => started.push(one))))
    yield* Effect.all(all, { concurrency: "unbounded" })
    assert.lengthOf(started, integrators.length)
  }))

it.live("handlers that end at once neither run on each other's stack nor in one turn of the event loop", () =>
  Effect.gen(function*() {
    const slots = yield* HandlerSlots.make(limits)
    const end = yield* Deferred.make<void>()
    yield* Effect.forEach(Array.from({ length: maxOfOne }), () => fork(slots.run(flood, Deferred.await(end))))
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = Infinity
    let deepest = 0
    let ended = 0
    const handler = Effect.sync(() => {
      ended++
      deepest = Math.max(deepest, new Error("here").stack?.split("\n").length ?? 0)
    })
    const waiting = yield* Effect.forEach(Array.from({ length: 500 }), () => fork(slots.run(flood, handler)))
    let endedInFirstTurn = 0
    setImmediate(() => (endedInFirstTurn = ended))
    Deferred.doneUnsafe(end, Effect.void)
    yield* Fiber.joinAll(waiting)
    Error.stackTraceLimit = stackTraceLimit
    assert.strictEqual(ended, 500)
    assert.isBelow(deepest, 100)
    assert.isBelow(endedInFirstTurn, 100)
  }))
