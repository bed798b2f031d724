import type { LoggedEvent } from "@card-rewards/client/CommandLine/EventLog"
import { type ForwardedAttempt, forwardPage } from "@card-rewards/client/CommandLine/Listen/Forwarder"
import { secretFromBytes } from "@card-rewards/domain/WebhookSignature"
import { until } from "@card-rewards/testing/Polling"
import { type Answer, type Received, WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import stripe from "stripe"

const secret = secretFromBytes(new Uint8Array(32))

const event = (id: string, rewardId?: string): LoggedEvent => ({
  id,
  kind: rewardId === undefined ? "vault.deposit_confirmed" : "reward.pending",
  integratorId: "acme",
  rewardId,
  body: JSON.stringify({ id })
})

const idOf = ({ headers }: Received) => headers["x-service-event-id"] ?? ""
const attemptOf = ({ headers }: Received) => Number(headers["x-service-attempt"])

/** Forwards events to a receiver that answers so. */
const forwarding = Effect.fnUntraced(function*(
  events: ReadonlyArray<LoggedEvent>,
  answer: (id: string, attempt: number) => Answer | undefined,
  hold?: (respond: () => void) => void
) {
  const receiver = yield* WebhookReceiver.make()
  receiver.hold(hold)
  receiver.answer((request) => answer(idOf(request), attemptOf(request)))
  const reported: Array<string> = []
  const report = ({ answer, attempt, event, result }: ForwardedAttempt) =>
    Effect.sync(() => void reported.push(`${event.id} ${attempt}: ${answer}, ${result}`))
  const fiber = yield* Effect.forkScoped(forwardPage({ url: new URL(receiver.url), secret, report })(events))
  return { receiver, reported, fiber }
})

/** Waits in real time, in which HTTP takes place, while the test's clock stands still. */
const untilCount = (what: string, list: ReadonlyArray<unknown>, count: number) =>
  TestClock.withLive(until(what, Effect.sync(() => list.length), (length) => length === count, 20))

describe("forwarding of a page", () => {
  it.effect("repeats an event four times, in order per reward, and goes on", () =>
    Effect.gen(function*() {
      const events = [event("a1", "a"), event("a2", "a"), event("b1", "b"), event("v1")]
      const { fiber, receiver, reported } = yield* forwarding(events, (id, attempt) =>
        id === "a1" ? 500 : id === "b1" && attempt === 1 ? { status: 302, headers: { location: "/" } } : 204)
      yield* untilCount("first attempts", reported, 3)
      assert.sameMembers(reported, ["a1 1: 500, retried", "b1 1: 302, retried", "v1 1: 204, delivered"])
      yield* TestClock.adjust(500)
      yield* untilCount("second attempts", reported, 5)
      yield* TestClock.adjust(1_000)
      yield* untilCount("the third attempt", reported, 6)
      yield* TestClock.adjust(2_000)
      yield* Fiber.join(fiber)
      assert.sameMembers(reported.slice(3, 5), ["a1 2: 500, retried", "b1 2: 204, delivered"])
      assert.deepStrictEqual(reported.slice(5), ["a1 3: 500, retried", "a1 4: 500, given up", "a2 1: 204, delivered"])
      for (const { body, headers } of receiver.received) {
        const header = headers["x-service-signature"] ?? ""
        stripe.webhooks.constructEvent(body, header, secret, 1, undefined, Number(headers["webhook-timestamp"]) * 1_000)
      }
      const times = receiver.received.filter((request) => idOf(request) === "a1").map(({ headers }) =>
        headers["webhook-timestamp"])
      assert.deepStrictEqual(times, ["0", "0", "1", "3"])
    }))

  it.effect("gives a server that hangs or refuses connections 15 s and four attempts", () =>
    Effect.gen(function*() {
      const { fiber, receiver, reported } = yield* forwarding([event("v1")], () => undefined)
      for (const [attempt, pauseMillis] of [500, 1_000].entries()) {
        yield* untilCount("the attempt", receiver.received, attempt + 1)
        yield* TestClock.adjust(14_999)
        assert.lengthOf(reported, attempt)
        yield* TestClock.adjust(1)
        yield* untilCount("the timeout", reported, attempt + 1)
        if (attempt === 1) yield* receiver.close
        yield* TestClock.adjust(pauseMillis)
      }
      yield* untilCount("the refusal", reported, 3)
      yield* TestClock.adjust(2_000)
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(reported, [
        "v1 1: no answer within 15 s, retried",
        "v1 2: no answer within 15 s, retried",
        "v1 3: ECONNREFUSED, retried",
        "v1 4: ECONNREFUSED, given up"
      ])
    }))

  it.effect("has 16 requests in flight at most", () =>
    Effect.gen(function*() {
      const events = Array.from({ length: 40 }, (_, index) => event(`v${index}`))
      const held: Array<() => void> = []
      const { fiber, receiver } = yield* forwarding(events, () => 200, (respond) => void held.push(respond))
      yield* untilCount("requests", held, 16)
      yield* TestClock.withLive(Effect.sleep(100))
      assert.lengthOf(held, 16)
      receiver.hold(undefined)
      for (const respond of held) respond()
      yield* Fiber.join(fiber)
      assert.lengthOf(new Set(receiver.received.map(idOf)), 40)
    }))
})
