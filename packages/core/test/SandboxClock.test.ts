import { instant } from "@card-rewards/domain/Time"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { SandboxClock } from "../src/SandboxClock.ts"
import { newIntegrator, pairRuns, startMillis, testLayer } from "./TestLayer.ts"

const layer = SandboxClock.layer.pipe(Layer.provideMerge(testLayer))
const at = (afterStartMillis: number) => instant(startMillis + afterStartMillis)

it.layer(layer)("SandboxClock", (it) => {
  it.effect("the clock is real time before the first move, and continues from the time that it was moved to", () =>
    Effect.gen(function*() {
      const clock = yield* SandboxClock
      const integratorId = yield* newIntegrator
      assert.deepStrictEqual(yield* clock.get(integratorId), { now: at(0) })
      assert.deepStrictEqual(yield* clock.set(integratorId, at(60_000)), { now: at(60_000) })
      yield* TestClock.adjust(1_500)
      assert.deepStrictEqual(yield* clock.get(integratorId), { now: at(61_500) })
    }))

  it.effect("the clock of one integrator is not another's", () =>
    Effect.gen(function*() {
      const clock = yield* SandboxClock
      const [one, other] = [yield* newIntegrator, yield* newIntegrator]
      yield* clock.set(one, at(60_000))
      assert.deepStrictEqual(yield* clock.get(other), { now: at(0) })
    }))

  it.effect("a move back fails with ClockCannotGoBack and the present time, and changes nothing", () =>
    Effect.gen(function*() {
      const clock = yield* SandboxClock
      const integratorId = yield* newIntegrator
      yield* clock.set(integratorId, at(60_000))
      const error = yield* Effect.flip(clock.set(integratorId, at(59_999)))
      assert.strictEqual(error._tag === "ClockCannotGoBack" ? error.now : undefined, at(60_000))
      assert.deepStrictEqual(yield* clock.get(integratorId), { now: at(60_000) })
    }))

  it.effect("a move to the present time, and a repeat of the last one, change nothing", () =>
    Effect.gen(function*() {
      const clock = yield* SandboxClock
      const integratorId = yield* newIntegrator
      assert.deepStrictEqual(yield* clock.set(integratorId, at(0)), { now: at(0) })
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(yield* clock.set(integratorId, at(0)), { now: at(10) })
      yield* clock.set(integratorId, at(60_000))
      yield* TestClock.adjust(1_000)
      assert.deepStrictEqual(yield* clock.set(integratorId, at(60_000)), { now: at(61_000) })
      assert.deepStrictEqual(yield* clock.get(integratorId), { now: at(61_000) })
    }))

  it.effect("the start of the year 9000 is the last instant the clock can be moved to", () =>
    Effect.gen(function*() {
      const clock = yield* SandboxClock
      const integratorId = yield* newIntegrator
      const last = instant(Date.UTC(9000, 0, 1))
      const error = yield* Effect.flip(clock.set(integratorId, instant(last + 1)))
      assert.strictEqual(error._tag === "InvalidRequest" ? error.part : undefined, "body")
      assert.deepStrictEqual(yield* clock.set(integratorId, last), { now: last })
    }))

  it.effect("concurrent moves leave the clock at the latest of them", () =>
    Effect.gen(function*() {
      const clock = yield* SandboxClock
      const integratorId = yield* newIntegrator
      for (let run = 1; run <= pairRuns; run++) {
        const [near, far] = [at(run * 10_000), at(run * 10_000 + 5_000)]
        const moves = [near, far].map((now) => Effect.result(clock.set(integratorId, now)))
        yield* Effect.all(moves, { concurrency: 2 })
        assert.deepStrictEqual(yield* clock.get(integratorId), { now: far })
      }
    }))
})
