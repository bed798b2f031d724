import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { receiveWebhooks } from "../demo/Receiver.ts"

it.effect("the demo waits a minute for a webhook, and then says that it did not come", () =>
  Effect.gen(function*() {
    const { take } = yield* receiveWebhooks
    const taken = yield* Effect.forkChild(Effect.flip(take(2)))
    yield* TestClock.adjust("60 seconds")
    assert.strictEqual((yield* Fiber.join(taken)).message, "No 2 webhooks came within 60 seconds")
  }).pipe(Effect.scoped))
