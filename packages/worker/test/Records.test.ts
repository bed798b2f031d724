import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { away, dispatcher, eventsEach, pass } from "./FakeDeliveries.ts"

describe("attempts", () => {
  it.effect("are recorded in parts that the database can do in its time", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(32)
      state.database = () => Effect.fail(away)
      yield* pass(10)
      // no more is sent than this
      assert.strictEqual(state.sent, 768)
      state.database = (ids) =>
        ids.length > 4 ? Effect.andThen(Effect.sleep(4_500), Effect.fail(away)) : Effect.sleep(500)
      yield* pass(120)
      assert.deepStrictEqual([state.sent, state.recorded()], [32 * eventsEach, 32 * eventsEach])
    }))

  it.effect("wait where nothing can be recorded, and are not sent again", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(1)
      state.database = () => Effect.fail(away)
      yield* pass(20)
      assert.deepStrictEqual([state.sent, state.recorded()], [eventsEach, 0])
      state.database = () => Effect.void
      yield* pass(10)
      assert.deepStrictEqual([state.sent, state.recorded()], [eventsEach, eventsEach])
    }))

  it.effect("whose record is refused hold up no other endpoint", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(8)
      state.database = (ids) => ids.includes("i3") ? Effect.die("fault") : Effect.void
      yield* pass(20)
      assert.strictEqual(state.recorded(), 7 * eventsEach)
    }))

  it.effect("are not given up for a fault that keeps all from being recorded, nor while no others are recorded", () =>
    Effect.gen(function*() {
      const { state } = yield* dispatcher(2)
      state.events = 1
      state.database = () => Effect.die("fault")
      yield* pass(5)
      assert.deepStrictEqual([state.sent, state.recorded()], [2, 0])
      // once beside the other's, then alone
      let refusals = 0
      state.database = (ids) =>
        ids.includes("i1") && (ids.length > 1 || ++refusals < 4) ? Effect.die("fault") : Effect.void
      yield* pass(60)
      assert.deepStrictEqual([state.sent, state.recorded()], [2, 2])
    }))

  it.effect("are not given up for a refusal that comes again after a record was stored", () =>
    Effect.gen(function*() {
      const { state, wakeUp } = yield* dispatcher(2)
      state.events = 0
      yield* pass(1)
      for (const round of [1, 2, 3]) {
        let isRefused = false
        state.database = (ids) => {
          const refuses = ids.includes("i1") && !isRefused
          isRefused ||= refuses && ids.length === 1
          return refuses ? Effect.die("fault") : Effect.void
        }
        state.events = round
        wakeUp.note(["i0", "i1"])
        yield* pass(1)
        assert.deepStrictEqual([state.sent, state.recorded()], [2 * round, 2 * round])
      }
    }))

  it.effect("do not hold up a stop, nor does a read or a release, where the database does not answer", () =>
    Effect.gen(function*() {
      const { state, stop } = yield* dispatcher(2)
      const silent = Effect.andThen(Effect.sleep(4_500), Effect.fail(away))
      state.answers = false
      yield* pass(1)
      // some are in flight until they are aborted, and one is to be recorded
      state.inFlight.shift()?.()
      state.database = () => silent
      state.reading = () => silent
      yield* pass(1)
      const stopped = yield* Effect.forkDetach(stop)
      yield* pass(7)
      assert.isDefined(stopped.pollUnsafe())
    }))
})
