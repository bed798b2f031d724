import { recentMillis } from "@card-rewards/domain/DeliverySlots"
import { Connector, type OnDone, type PostInput } from "@card-rewards/worker/Connector"
import { Consumers } from "@card-rewards/worker/WebhookDispatcher/Consumers"
import * as Sender from "@card-rewards/worker/WebhookDispatcher/Sender"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Latch } from "effect"
import { TestClock } from "effect/testing"
import { readConsumer, urlOf } from "./ReadConsumer.ts"

const endpoints = 32
const events = 100
const idOf = (index: number) => `integrator-${index}`

interface Posted {
  readonly url: string
  readonly onDone: OnDone
}

/** A sender with endpoints that have events, and the requests that were posted and not answered. */
const makeStage = Effect.fnUntraced(function*(endsNanos = 2n ** 62n) {
  const consumers = new Consumers()
  for (let index = 0; index < endpoints; index++) {
    consumers.add({ consumer: readConsumer(idOf(index), events), startUntilNanos: 2n ** 62n, endsNanos })
  }
  const unanswered: Array<Posted> = []
  const post = ({ url }: PostInput, onDone: OnDone) => {
    unanswered.push({ url, onDone })
    return () => undefined
  }
  const wakeUps = { reads: yield* Latch.make(), records: yield* Latch.make() }
  const sender = yield* Sender.make(consumers, wakeUps).pipe(Effect.provideService(Connector, Connector.of({ post })))
  return { consumers, sender, unanswered }
})

const answer = ({ onDone }: Posted) => onDone({ status: 200, bodySnippet: "" })

/** Lets timers and turns of the event loop pass until as many are in flight; the test's timeout ends it. */
const untilInFlight = Effect.fnUntraced(function*(unanswered: ReadonlyArray<Posted>, count: number) {
  while (unanswered.length < count) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
})

describe("Sender", () => {
  it.effect("has no more than 128 requests in flight to receivers that answer at once", () =>
    Effect.gen(function*() {
      const { sender, unanswered } = yield* makeStage()
      sender.send()
      // 32 endpoints get three slots each; a fourth one only while 32 of the 128 are free
      const first = unanswered.length
      assert.strictEqual(first, 97)
      // few enough that none of their outcomes has to be recorded before others start
      for (let posted = first; posted < 500; posted += unanswered.length) {
        unanswered.splice(0).forEach(answer)
        sender.send()
        assert.isAtMost(unanswered.length, first)
      }
    }))

  it.effect("has more of them as soon as an answer takes longer, without anything else that happens", () =>
    Effect.gen(function*() {
      const { sender, unanswered } = yield* makeStage()
      sender.send()
      for (const inFlight of [194, 291, 388, 409]) {
        yield* TestClock.adjust(recentMillis)
        yield* untilInFlight(unanswered, inFlight)
        assert.strictEqual(unanswered.length, inFlight)
      }
    }))

  it.effect("lets a receiver that takes longer have all of its slots beside others that answer at once", () =>
    Effect.gen(function*() {
      const { sender, unanswered } = yield* makeStage()
      for (let step = 0; step < 6; step++) {
        sender.send()
        yield* TestClock.adjust(recentMillis)
        for (const posted of unanswered.splice(0)) {
          if (posted.url === urlOf(idOf(0))) unanswered.push(posted)
          else answer(posted)
        }
      }
      assert.strictEqual(unanswered.length, 16)
    }))

  it.effect("gives up an endpoint whose attempt ends after its lease: another worker may have made it, too", () =>
    Effect.gen(function*() {
      const { consumers, sender, unanswered } = yield* makeStage(1_000_000_000n)
      sender.send()
      yield* TestClock.adjust(999)
      const [first, second] = [unanswered[0], unanswered.find(({ url }) => url !== unanswered[0]?.url)]
      if (first === undefined || second === undefined) return assert.fail("nothing was sent")
      answer(first)
      assert.strictEqual(consumers.count, endpoints)
      yield* TestClock.adjust(2)
      answer(second)
      assert.strictEqual(consumers.count, endpoints - 1)
    }))
})
