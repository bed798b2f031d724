import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { away, dispatcher, eventsEach, pass } from "./FakeDeliveries.ts"

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
