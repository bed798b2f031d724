import { JournalSeals } from "@card-rewards/core/JournalSeals"
import * as JournalSealer from "@card-rewards/worker/JournalSealer"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"

it.effect("sealing takes half of the time while there is a backlog, and pauses half a minute after it", () =>
  Effect.gen(function*() {
    let steps = 0
    const sealNext = Effect.map(Effect.sleep("40 millis"), () => ++steps % 100 > 0)
    yield* Layer.build(JournalSealer.layer({}).pipe(Layer.provide(Layer.mock(JournalSeals, { sealNext }))))
    yield* TestClock.adjust("4 seconds")
    assert.strictEqual(steps, 50)
    yield* TestClock.adjust("4 seconds")
    assert.strictEqual(steps, 100)
    yield* TestClock.adjust("23 seconds")
    assert.strictEqual(steps, 100)
    yield* TestClock.adjust("13 seconds")
    assert.isAbove(steps, 100)
  }))
