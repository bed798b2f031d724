import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { away, dispatcher, eventsEach, nextPhase, pass } from "./FakeDeliveries.ts"

const timedOut = Effect.andThen(Effect.sleep(4_500), Effect.fail(away))

describe("reads", () => {
  it.effect.each([
    { name: "cannot be decoded", fault: Effect.die("fault"), seconds: 20 },
    { name: "times out", fault: timedOut, seconds: 60 }
  ])("an endpoint whose read $name holds up no other one", ({ fault, seconds }) =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(64)
      let failures = 0
      state.reading = (ids) => ids.includes("i3") ? Effect.andThen(Effect.sync(() => failures++), fault) : Effect.void
      // none is given up for want of work
      const passBusy = (seconds: number) =>
        Effect.repeat(Effect.andThen(Effect.sync(() => state.events++), pass(4)), { times: seconds / 4 - 1 })
      yield* passBusy(seconds)
      assert.strictEqual(state.recorded(), 63 * state.events)
      // it is found by halving, and then read once a minute
      assert.isAtMost(failures, 8)
      yield* passBusy(180)
      assert.isAtMost(failures, 11)
      assert.strictEqual(state.recorded(), 63 * state.events)
      state.reading = () => Effect.void
      yield* passBusy(64)
      assert.strictEqual(state.recorded(), 64 * state.events)
    }))

  it.effect("of an endpoint that fail twice, such as with two lost connections, go on after a second", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(2)
      let reads = 0
      let failures = 0
      // the first read, of both endpoints, and the first of i1 alone, after one of the other has succeeded
      state.reading = (ids) => {
        reads++
        const isLost = reads === 1 || (failures === 1 && ids.length === 1 && ids[0] === "i1" && reads > 2)
        return isLost ? Effect.andThen(Effect.sync(() => failures++), Effect.fail(away)) : Effect.void
      }
      yield* pass(4)
      assert.strictEqual(failures, 2)
      assert.strictEqual(state.recorded(), 2 * eventsEach)
    }))

  it.effect("of an endpoint follow at once after its events were stored, of others after a poll", () =>
    Effect.gen(function*() {
      const { state, wakeUp } = yield* dispatcher(400)
      yield* pass(2)
      assert.strictEqual(state.recorded(), 400 * eventsEach)
      const reads: Array<ReadonlyArray<string>> = []
      state.reading = (ids) => Effect.sync(() => void reads.push(ids))
      const { scans } = state
      state.events++
      for (const [index, id] of ["i7", "i8", "i9"].entries()) {
        wakeUp.note([id])
        yield* Effect.repeat(nextPhase, { until: () => reads.length > index, times: 10_000 })
      }
      assert.deepStrictEqual(reads, [["i7"], ["i8"], ["i9"]])
      assert.strictEqual(state.scans, scans)
      yield* pass(1)
      assert.strictEqual(state.recorded(), 400 * state.events)
      assert.lengthOf(reads.flat(), 400)
    }))

  it.effect("of endpoints without events are none; the polls are as many for 1,600 as for 800", () =>
    Effect.gen(function*() {
      const pollsOf = Effect.fnUntraced(function*(endpoints: number) {
        const { state } = yield* dispatcher(endpoints)
        state.events = 1
        yield* pass(2)
        assert.strictEqual(state.recorded(), endpoints)
        state.reading = (ids) => Effect.die(new Error(`${ids} are read`))
        state.polled = 0
        yield* pass(2)
        return state.polled
      })
      // four in a millisecond, the last ones before their turn is over
      for (const endpoints of [800, 1_600]) {
        const polls = yield* pollsOf(endpoints)
        assert.isTrue(polls > 4_000 && polls <= 4 * 2_000 + endpoints, `${polls}`)
      }
    }))

  it.effect("continue at once after the database was away, however long", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(8)
      state.reading = () => timedOut
      yield* pass(300)
      assert.strictEqual(state.sent, 0)
      state.reading = () => Effect.void
      yield* pass(10)
      assert.strictEqual(state.recorded(), 8 * eventsEach)
    }))

  it.effect("that the database cannot do in its time are done in parts", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(64)
      state.reading = (ids) => ids.length > 8 ? timedOut : Effect.sleep(200)
      yield* pass(120)
      assert.strictEqual(state.recorded(), 64 * eventsEach)
    }))
})
