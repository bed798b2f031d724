import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { untilTrue } from "@card-rewards/testing/Polling"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { allDelivered, endpoint, events, services, states } from "./Dispatching.ts"

const acme = IntegratorId.make("acme")
const hookId = EndpointId.make("hook")

it.live("after 10 failures in a row one probe at a time, of the delivery due longest; success closes the breaker", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    yield* events("acme", 40)
    hook.answer(500)
    const held: Array<() => void> = []
    hook.hold((respond) => held.push(respond))
    const received = (count: number) => untilTrue(Effect.sync(() => hook.received.length === count))
    // the endpoint stays given up for so long, within which a poll has to find it
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [3_000] }))
    const sql = yield* SqlClient.SqlClient
    const breaker = Effect.map(
      sql<{ failures: number; worker: string | null }>`SELECT failures, worker FROM webhook_endpoints`,
      ([row]) => row
    )
    // 16 are in flight, and each of nine failures makes room for another one
    for (let failures = 0; failures < 9; failures++) {
      yield* received(16 + failures)
      held[failures]?.()
    }
    const before = 16 + 9
    yield* received(before)
    // the tenth does not
    held[9]?.()
    yield* untilTrue(Effect.map(breaker, (row) => row?.failures === 10))
    assert.strictEqual(hook.received.length, before)
    hook.hold(undefined)
    for (const respond of held.slice(10)) respond()
    // it is given up until its probe
    yield* untilTrue(Effect.map(breaker, (row) => row?.worker === null))
    yield* untilTrue(Effect.sync(() => hook.received.length >= before + 2))
    const probes = hook.received.slice(before, before + 2).map(({ body }) => Number(/\d+/.exec(body)?.[0]))
    assert.deepStrictEqual(probes, [before + 1, before + 2])
    hook.answer(200)
    yield* untilTrue(allDelivered)
    assert.deepStrictEqual((yield* breaker)?.failures, 0)
    assert.isTrue((yield* states).every(({ state }) => state === "delivered"))
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("a changed URL takes waiting deliveries along, makes them due, and closes the breaker", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/old`)
    hook.answer(({ path }) => path === "/old" ? 500 : 200)
    yield* events("acme", 20)
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [3_600_000] }))
    const sql = yield* SqlClient.SqlClient
    const quiet = sql`SELECT 1 FROM webhook_endpoints WHERE failures >= 10 AND worker IS NULL`
    yield* untilTrue(Effect.map(quiet, (rows) => rows.length === 1))
    const before = hook.received.length
    const endpoints = yield* WebhookEndpoints
    yield* endpoints.update(acme, hookId, `${hook.origin}/new`)
    const [breaker] = yield* sql<{ failures: number; probeAt: number | null }>`
      SELECT failures, probe_at FROM webhook_endpoints`
    assert.deepStrictEqual(breaker, { failures: 0, probeAt: null })
    yield* untilTrue(allDelivered)
    assert.isTrue((yield* states).every(({ state }) => state === "delivered"))
    assert.deepStrictEqual(hook.received.slice(before).map(({ path }) => path), Array(20).fill("/new"))
  }).pipe(Effect.scoped, Effect.provide(services())))
