import { Processing } from "@card-rewards/core/Processing"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as SpendProcessor from "../src/SpendProcessor.ts"

const batchMillis = 10

/**
 * Runs the processor over batches of as many units as `next` returns. Returns a function that lets milliseconds pass,
 * and returns how many batches began meanwhile.
 */
const processing = Effect.fnUntraced(function*(next: () => number) {
  let count = 0
  const processEvents = Effect.suspend(() => {
    count++
    return Effect.delay(Effect.sync(next), batchMillis)
  })
  const services = Layer.mock(Processing, {
    processEvents,
    retryQuarantined: Effect.succeed(0),
    quarantined: Effect.never
  })
  yield* Layer.build(Layer.provide(SpendProcessor.layer, services))
  return Effect.fnUntraced(function*(millis: number) {
    const before = count
    yield* TestClock.adjust(millis)
    return count - before
  })
})

it.effect("an idle processor looks for events every 40 ms, and soon again after it found some", () =>
  Effect.gen(function*() {
    let units = 0
    const batchesIn = yield* processing(() => units)
    yield* batchesIn(1_000)
    // one in 42 to 58 ms: a batch and the pause
    const idle = yield* batchesIn(10_000)
    assert.isAtLeast(idle, 170)
    assert.isAtMost(idle, 240)
    units = 1
    yield* batchesIn(100)
    units = 0
    // a batch is in progress, which began up to 10 ms ago, or is just beginning; the next ones begin 12 to 14, 27 to
    // 31, 47 to 55 and 76 to 94 ms after it. With the idle pause there would be two at most.
    assert.include([3, 4], yield* batchesIn(60))
    assert.isAtMost(yield* batchesIn(10_000), 240)
  }).pipe(Effect.scoped))

it.effect("helpers join in while batches are large, and sleep again once they are small", () =>
  Effect.gen(function*() {
    let units = 1
    const batchesIn = yield* processing(() => units)
    yield* batchesIn(1_000)
    assert.strictEqual(yield* batchesIn(1_000), 1_000 / batchMillis)
    units = 1_000
    yield* batchesIn(1_000)
    assert.strictEqual(yield* batchesIn(1_000), 3 * 1_000 / batchMillis)
    units = 1
    yield* batchesIn(1_000)
    assert.strictEqual(yield* batchesIn(1_000), 1_000 / batchMillis)
  }).pipe(Effect.scoped))
