import { type EventPage, WebhookEvent } from "@card-rewards/domain/Event"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { History, type ReadEvents } from "../src/history/Follow.ts"

/** Longer than the pause between two polls. */
const pollMillis = 5_000

const ping = (number: number): WebhookEvent =>
  Schema.decodeSync(WebhookEvent)({
    id: `evt_${number}`,
    kind: "webhook.ping",
    integratorId: "acme",
    createdAt: "2030-01-01T00:00:00.000Z",
    data: {}
  })

/** An event log whose pages are full after `perPage` events, whatever the limit, as if events were large. */
const logOf = (count: number, perPage: number) => {
  const log = Array.from({ length: count }, (_, index) => ping(index + 1))
  const state = { reads: 0, log }
  const read: ReadEvents<never> = ({ after = 0n }) =>
    Effect.sync((): EventPage => {
      state.reads++
      const events = log.slice(Number(after), Number(after) + perPage)
      return { events, next: after + BigInt(events.length) }
    })
  return { read, state }
}

/** Lets the history read until it pauses. */
const untilPaused = Effect.yieldNow.pipe(Effect.repeat({ times: 100 }))

const nextPoll = TestClock.adjust(pollMillis).pipe(Effect.andThen(untilPaused))

/** Every status that the history had while `during` ran, without repetitions. */
const statusesDuring = <A, E, R>(history: History, during: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const statuses: Array<string> = []
    const unsubscribe = history.subscribe(() => {
      const { status } = history.state()
      if (statuses.at(-1) !== status) statuses.push(status)
    })
    yield* during
    unsubscribe()
    return statuses
  })

describe("the history", () => {
  it.effect("is read to its end without a pause, also where pages are shorter than requested", () =>
    Effect.gen(function* () {
      const { read, state } = logOf(7, 3)
      const history = new History()
      const following = yield* Effect.forkChild(history.follow(read))
      yield* untilPaused
      assert.strictEqual(history.state().fold.events.length, 7)
      assert.strictEqual(history.state().status, "live")
      assert.strictEqual(state.reads, 4, "three pages with events, and the empty one at the end")
      yield* Fiber.interrupt(following)
    })
  )

  it.effect("is incomplete until an empty page was read", () =>
    Effect.gen(function* () {
      const { read } = logOf(7, 3)
      const history = new History()
      const following = Effect.forkChild(history.follow(read)).pipe(Effect.tap(() => untilPaused))
      assert.deepStrictEqual(yield* statusesDuring(history, following), ["reading", "live"])
    })
  )

  it.effect("stays live while single pages of new events come, and warns where it lags behind", () =>
    Effect.gen(function* () {
      const { read, state } = logOf(1, 3)
      const history = new History()
      yield* Effect.forkChild(history.follow(read))
      yield* untilPaused
      state.log.push(ping(2), ping(3))
      assert.deepStrictEqual(yield* statusesDuring(history, nextPoll), ["live"])
      assert.strictEqual(history.state().fold.events.length, 3)
      state.log.push(ping(4), ping(5), ping(6), ping(7), ping(8))
      assert.deepStrictEqual(yield* statusesDuring(history, nextPoll), ["live", "reading", "live"])
      assert.strictEqual(history.state().fold.events.length, 8)
    })
  )
})
