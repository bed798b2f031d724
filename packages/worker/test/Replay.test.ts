import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { defaultRetryDelays } from "@card-rewards/domain/Delivery"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { untilTrue } from "@card-rewards/testing/Polling"
import { type Received, WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as WebhookDispatcher from "../src/WebhookDispatcher.ts"
import { allDelivered, endpoint, events, services } from "./Dispatching.ts"

const acme = IntegratorId.make("acme")
const hook = EndpointId.make("hook")
const count = 600
const rewards = 50

const numberOf = ({ body }: Received) => Number(/\d+/.exec(body)?.[0])

it.live("a replay of more events than fit into the window loses none of them, however slow the receiver", () =>
  Effect.gen(function*() {
    const receiver = yield* WebhookReceiver.make()
    const { startReplay } = yield* DeliveryLog
    yield* endpoint("acme", receiver.url)
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: defaultRetryDelays }))
    yield* events("acme", 120)
    yield* untilTrue(allDelivered)
    receiver.answer({ status: 200, delayMillis: 250 })
    yield* startReplay(acme, hook, { from: instant(0) })
    yield* untilTrue(allDelivered)
    assert.strictEqual(new Set(receiver.received.slice(120).map(numberOf)).size, 120)
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("a replay delivers the same bytes in each reward's order, behind new events, and stores only what fails", () =>
  Effect.gen(function*() {
    const receiver = yield* WebhookReceiver.make()
    const sql = yield* SqlClient.SqlClient
    const { findReplay, startReplay } = yield* DeliveryLog
    yield* endpoint("acme", receiver.url)
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [50, 100, ...defaultRetryDelays] }))
    yield* events("acme", count, { rewards })
    yield* untilTrue(allDelivered)
    const first = receiver.received.slice()
    // one in fifty fails once; answers take a moment, so that new events meet the replay
    const failed = new Set<number>()
    receiver.answer((request) => {
      const number = numberOf(request)
      const isFailing = number <= count && number % 50 === 7 && !failed.has(number)
      if (isFailing) failed.add(number)
      return { status: isFailing ? 500 : 200, delayMillis: 5 }
    })
    const replay = yield* startReplay(acme, hook, { from: instant(0) })
    assert.strictEqual(replay.events, count)
    yield* untilTrue(Effect.sync(() => receiver.received.length > count + 50))
    yield* events("acme", 20)
    yield* untilTrue(allDelivered)
    assert.strictEqual((yield* findReplay(acme, hook, replay.id)).state, "done")

    const again = receiver.received.slice(count)
    const lastNew = again.findLastIndex((request) => numberOf(request) > count)
    assert.isBelow(lastNew, count / 2, "new events waited for the replay")
    const replayed = again.filter((request) => numberOf(request) <= count)
    assert.deepStrictEqual(new Set(replayed.map(({ body }) => body)), new Set(first.map(({ body }) => body)))
    assert.strictEqual(replayed.length, count + failed.size)
    for (const requests of Map.groupBy(replayed, (request) => numberOf(request) % rewards).values()) {
      const numbers = [...new Set(requests.map(numberOf))]
      assert.deepStrictEqual(numbers, numbers.toSorted((one, other) => one - other))
    }
    const rows = yield* sql<{ event: bigint; state: string }>`SELECT event, state FROM retries WHERE round > 1`
    const followers = rows.filter(({ event }) => Number(event) % 50 !== 7)
    assert.deepStrictEqual(followers, [], "more than the failed events' reward became rows")
    assert.isTrue(rows.every(({ state }) => state === "delivered"))
  }).pipe(Effect.scoped, Effect.provide(services())))
