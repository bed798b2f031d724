import { Processing } from "@card-rewards/core/Processing"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as SpendProcessor from "../src/SpendProcessor.ts"

const batchMillis = 10
/** The pause after a small batch. */
const restMillis = 2

/**
 * Runs the processor over batches of as many units as `next` returns. Returns the batches that have ended, each with
 * when it began, and a function that lets milliseconds pass, and returns how many batches began meanwhile.
 */
const processing = Effect.fnUntraced(function*(next: () => number) {
  let starts = 0
  const ended: Array<{ readonly at: number; readonly units: number }> = []
  const processEvents = Effect.flatMap(Clock.currentTimeMillis, (at) => {
    starts++
    const end = Effect.sync(() => {
      const units = next()
      ended.push({ at, units })
      return units
    })
    return Effect.delay(end, batchMillis)
  })
  const services = Layer.mock(Processing, {
    processEvents,
    retryQuarantined: Effect.succeed(0),
    quarantined: Effect.never
  })
  yield* Layer.build(Layer.provide(SpendProcessor.layer, services))
  const batchesIn = Effect.fnUntraced(function*(millis: number) {
    const before = starts
    yield* TestClock.adjust(millis)
    return starts - before
  })
  return { batchesIn, ended }
})

it.effect("an idle processor looks for events every 40 ms, and soon again after it found some", () =>
  Effect.gen(function*() {
    let units = 0
    const { batchesIn, ended } = yield* processing(() => units)
    yield* batchesIn(1_000)
    units = 1
    yield* batchesIn(100)
    units = 0
    // less than the helpers' pause, so that all batches are of the same fiber
    yield* batchesIn(500)
    const first = ended.findLastIndex((batch) => batch.units > 0) + 1
    // from the first batch without units on, each pause is twice as long as the one before, up to 20 % more or less
    for (const [index, pauseMillis] of [3, 6, 12, 24, 40, 40].entries()) {
      const paused = (ended[first + index + 1]?.at ?? 0) - (ended[first + index]?.at ?? 0) - batchMillis
      assert.approximately(paused, pauseMillis, 0.2 * pauseMillis, `pause ${index}`)
    }
    // one in 42 to 58 ms: a batch and the pause
    const idle = yield* batchesIn(10_000)
    assert.isAtLeast(idle, 170)
    assert.isAtMost(idle, 240)
  }).pipe(Effect.scoped))

it.effect("helpers join in while batches are large, and sleep again once they are small", () =>
  Effect.gen(function*() {
    let units = 1
    const { batchesIn } = yield* processing(() => units)
    yield* batchesIn(1_000)
    assert.approximately(yield* batchesIn(1_000), 1_000 / (batchMillis + restMillis), 1)
    units = 1_000
    yield* batchesIn(1_000)
    assert.strictEqual(yield* batchesIn(1_000), 3 * 1_000 / batchMillis)
    units = 1
    yield* batchesIn(1_000)
    assert.approximately(yield* batchesIn(1_000), 1_000 / (batchMillis + restMillis), 1)
  }).pipe(Effect.scoped))
