import { Processing } from "@card-rewards/core/Processing"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as SpendProcessor from "../src/SpendProcessor.ts"

const batchMillis = 10

/** The processor over batches of as many units as `next` returns, with the number of batches that began so far. */
const processing = Effect.fnUntraced(function*(next: () => number) {
  let begun = 0
  const processEvents = Effect.suspend(() => {
    begun++
    return Effect.delay(Effect.sync(next), batchMillis)
  })
  const services = Layer.mock(Processing, {
    processEvents,
    retryQuarantined: Effect.succeed(0),
    quarantined: Effect.never
  })
  yield* Layer.build(Layer.provide(SpendProcessor.layer, services))
  return Effect.fnUntraced(function*(millis: number) {
    const before = begun
    yield* TestClock.adjust(millis)
    return begun - before
  })
})

it.effect("an idle processor looks for events every 40 ms, and soon again after it found some", () =>
  Effect.gen(function*() {
    let units = 0
    const begunIn = yield* processing(() => units)
    yield* begunIn(1_000)
    // each of 50 ms, of which 8 ms are jitter
    const idle = yield* begunIn(10_000)
    assert.isAtLeast(idle, 170)
    assert.isAtMost(idle, 240)
    units = 1
    yield* begunIn(100)
    units = 0
    const begun = yield* begunIn(50)
    assert.isAtLeast(begun, 3)
    assert.isAtMost(begun, 4)
    assert.isAtMost(yield* begunIn(10_000), 240)
  }).pipe(Effect.scoped))

it.effect("helpers join in while batches are large, and sleep again once they are small", () =>
  Effect.gen(function*() {
    let units = 1
    const begunIn = yield* processing(() => units)
    yield* begunIn(1_000)
    assert.strictEqual(yield* begunIn(1_000), 1_000 / batchMillis)
    units = 1_000
    yield* begunIn(1_000)
    assert.strictEqual(yield* begunIn(1_000), 3 * 1_000 / batchMillis)
    units = 1
    yield* begunIn(1_000)
    assert.strictEqual(yield* begunIn(1_000), 1_000 / batchMillis)
  }).pipe(Effect.scoped))
