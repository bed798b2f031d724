import { Deliveries, type EndpointLease } from "@card-rewards/core/Deliveries"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { closedBreaker } from "@card-rewards/domain/Delivery"
import { Unavailable } from "@card-rewards/domain/Errors"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { verify, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { untilTrue } from "@card-rewards/testing/Polling"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { DispatcherWakeUp, WakeUp } from "@card-rewards/worker/DispatcherWakeUp"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Layer, References } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { endpoint, event, events, services, allDelivered, states } from "./Dispatching.ts"

const acme = IntegratorId.make("acme")
const hookId = EndpointId.make("hook")

it.live("retries send the same bytes with signatures that verify, until the answer is 2xx", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const secret = yield* endpoint("acme", `${hook.origin}/hook`)
    hook.answer(() => hook.received.length < 3 ? 500 : 204)
    yield* event("acme")
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [20, 20, 20] }))
    yield* untilTrue(allDelivered)
    assert.deepStrictEqual(yield* states, [{ state: "delivered", attempts: 3 }])
    assert.deepStrictEqual(hook.received.map(({ body }) => body), Array(3).fill("{\"n\":1,\"é\":\"ü\"}"))
    assert.deepStrictEqual(hook.received.map(({ headers }) => headers["x-service-attempt"]), ["1", "2", "3"])
    for (const { body, headers } of hook.received) {
      const signature = `${headers["x-service-signature"]}`
      const nowSeconds = Number(headers["webhook-timestamp"])
      yield* verify({ secrets: [secret], signature, body, nowSeconds, toleranceSeconds: 5 })
    }
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("each endpoint gets the events of its own integrator alone, signed with no other one's secret", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const names = ["one", "two", "three"]
    const secrets = yield* Effect.forEach(names, (name) => endpoint(name, `${hook.origin}/${name}`))
    for (const name of names) yield* events(name, 20)
    const sql = yield* SqlClient.SqlClient
    yield* sql`UPDATE events SET body = integrator_id`
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [20] }))
    yield* untilTrue(allDelivered)
    assert.strictEqual(hook.received.length, 60)
    for (const { body, headers, path } of hook.received) {
      assert.strictEqual(`/${body}`, path)
      const signature = `${headers["x-service-signature"]}`
      const nowSeconds = Number(headers["webhook-timestamp"])
      const valid = yield* Effect.filter(secrets, (secret) =>
        Effect.isSuccess(verify({ secrets: [secret], signature, body, nowSeconds, toleranceSeconds: 5 })))
      assert.deepStrictEqual(valid, secrets.filter((_, index) => names[index] === body))
    }
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("events of one reward arrive in order, and a failing one holds up only its reward; then it is exhausted", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    hook.answer(({ body }) => body.includes("\"n\":1,") ? 500 : 200)
    for (const reward of [1, 1, 2, 2, 1]) yield* event("acme", reward)
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [50, 50] }))
    yield* untilTrue(allDelivered)
    const order = hook.received.map(({ body }) => Number(/\d+/.exec(body)?.[0]))
    assert.deepStrictEqual(order.filter((n) => [1, 2, 5].includes(n)), [1, 1, 1, 2, 5])
    assert.deepStrictEqual(order.filter((n) => n === 3 || n === 4), [3, 4])
    assert.deepStrictEqual((yield* states)[0], { state: "exhausted", attempts: 3 })
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("two dispatchers at once send each delivery once, and a hanging endpoint does not hold up another", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/fast`)
    yield* endpoint("bad", `${hook.origin}/hang`)
    hook.answer(({ path }) => path === "/hang" ? undefined : 200)
    yield* events("acme", 200)
    yield* events("bad", 40)
    const sql = yield* SqlClient.SqlClient
    yield* Layer.build(Layer.fresh(WebhookDispatcher.layer({ retryDelays: [60_000] })))
    yield* Layer.build(Layer.fresh(WebhookDispatcher.layer({ retryDelays: [60_000] })))
    const left = sql`SELECT FROM webhook_endpoints WHERE integrator_id = 'acme' AND cursor < 200`
    yield* untilTrue(Effect.map(left, (rows) => rows.length === 0))
    assert.strictEqual(hook.received.filter(({ path }) => path === "/fast").length, 200)
    assert.isAtMost(hook.received.filter(({ path }) => path === "/hang").length, 32)
    yield* hook.close
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("a dispatcher that stops at any moment records what it has sent, and gives its leases up", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    for (let number = 1; number <= 8; number++) {
      yield* endpoint(`acme${number}`, `${hook.origin}/hook`)
      yield* events(`acme${number}`, 2_000)
    }
    const sql = yield* SqlClient.SqlClient
    for (let stop = 1; stop <= 12; stop++) {
      const before = hook.received.length
      yield* Effect.gen(function*() {
        yield* Layer.build(Layer.fresh(WebhookDispatcher.layer({ retryDelays: [60_000] })))
        yield* untilTrue(Effect.sync(() => hook.received.length > before + 20 + 7 * stop))
        yield* Effect.sleep(stop)
      }).pipe(Effect.scoped)
      const [left] = yield* sql<{ held: number; passed: number; attempts: number }>`
        SELECT (count(*) FILTER (WHERE worker IS NOT NULL))::int4 AS held, sum(cursor)::int4 AS passed,
          (SELECT count(*)::int4 FROM delivery_attempts) AS attempts FROM webhook_endpoints`
      const received = hook.received.length
      assert.deepStrictEqual(left, { held: 0, passed: received, attempts: received }, `stop ${stop}`)
    }
    assert.isBelow(hook.received.length, 16_000, "the last stop came when all was delivered")
    yield* hook.close
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("the holder of an ended lease reads and records nothing, and a deleted endpoint is leased by nobody", () =>
  Effect.gen(function*() {
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    yield* event("acme")
    const { lease, purge, read, record, renew } = yield* Deliveries
    const now = yield* Clock.currentTimeMillis
    const leaseAt = (worker: string, at: number) => lease({ worker, now: at, until: at + 30_000, limit: 10 })
    const [first] = yield* leaseAt("first", now)
    assert.deepStrictEqual(yield* leaseAt("second", now + 29_000), [])
    const [second] = yield* leaseAt("second", now + 30_000)
    if (first === undefined || second === undefined) return assert.fail("no lease")
    assert.deepStrictEqual([first.token, second.token], [1n, 2n])
    const request = { after: 0n, events: 10, retries: 10, maxBytes: 1_000_000 }
    assert.deepStrictEqual(yield* read([{ ...first, ...request }], now), [])
    const [reading] = yield* read([{ ...second, ...request }], now)
    assert.deepStrictEqual(reading?.events.map((one) => one.event), [1n])
    const result = { status: 200, answer: "" }
    const attempts = [{ event: 1n, round: 1, attempt: 1, startedAt: now, durationMillis: 1, result }]
    const recordOf = (held: EndpointLease) =>
      ({ ...held, cursor: 1n, revision: 1, breaker: closedBreaker, attempts, retries: [], isRepeated: false })
    const none = { stored: new Set<string>(), busy: new Set<string>() }
    assert.deepStrictEqual(yield* record([recordOf(first)], now), none)
    assert.deepStrictEqual((yield* renew([first, second], now + 60_000)).renewed, new Set(["acme"]))
    const endpoints = yield* WebhookEndpoints
    yield* endpoints.remove(acme, hookId)
    assert.deepStrictEqual(yield* record([recordOf(second)], now), none)
    assert.deepStrictEqual(yield* renew([second], now + 60_000), { renewed: none.stored, busy: none.busy })
    assert.deepStrictEqual(yield* leaseAt("third", now + 120_000), [])
    assert.isTrue(yield* purge(now + 120_000))
    assert.isFalse(yield* purge(now + 120_000))
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("each wake-up signal starts a step before the idle pause ends, and within a millisecond of the last", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    const stored = new WakeUp()
    const deliveries = yield* Deliveries
    let steps = 0
    const counting = Layer.succeed(Deliveries, {
      ...deliveries,
      lease: (options) => Effect.tap(deliveries.lease(options), () => Effect.sync(() => void steps++))
    })
    const dispatcher = WebhookDispatcher.layer({ retryDelays: [1000] }).pipe(
      Layer.provide([counting, Layer.succeed(DispatcherWakeUp, stored)])
    )
    const now = yield* Clock.currentTimeMillis
    const standing = Effect.gen(function*() {
      yield* TestClock.setTime(now)
      yield* Layer.build(dispatcher)
      yield* TestClock.withLive(Effect.gen(function*() {
        yield* untilTrue(Effect.sync(() => steps === 1))
        for (const count of [1, 2, 3]) {
          yield* event("acme")
          stored.note(["acme"])
          yield* untilTrue(Effect.sync(() => hook.received.length === count))
        }
      }))
      // the pause of the fiber that records has to end
      yield* TestClock.adjust("1 second")
      yield* TestClock.withLive(untilTrue(allDelivered))
    })
    // pauses of the test's clock are no whole milliseconds, which PostgreSQL refuses
    yield* standing.pipe(Effect.provide(TestClock.layer()), Effect.provideService(References.MinimumLogLevel, "None"))
    yield* hook.close
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("no attempt starts whose lease may end before it", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    yield* event("acme")
    const deliveries = yield* Deliveries
    let reads = 0
    // its answer comes when less than 17 of 30 parts of the lease are left
    const slow = Layer.succeed(Deliveries, {
      ...deliveries,
      renew: () => Effect.fail(new Unavailable({ message: "away" })),
      lease: (options) => Effect.tap(deliveries.lease(options), (leased) => Effect.sleep(leased.length * 500)),
      read: (...request) => Effect.tap(deliveries.read(...request), () => Effect.sync(() => void reads++))
    })
    const dispatcher = WebhookDispatcher.layer({ retryDelays: [1000], leaseMillis: 900 })
    yield* Effect.gen(function*() {
      yield* Layer.build(Layer.fresh(dispatcher).pipe(Layer.provide(slow)))
      yield* untilTrue(Effect.sync(() => reads > 2))
    }).pipe(Effect.scoped)
    assert.lengthOf(hook.received, 0)
    yield* hook.close
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("Retry-After is honoured on 429 and 503, within two delays, and on nothing else", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    const answers = [[429, "100"], [503, "110"], [429, "3600"], [500, "100"]] as const
    hook.answer(({ body }) => {
      const [status, retryAfter] = answers[Number(/\d+/.exec(body)?.[0]) - 1] ?? [200, "0"]
      return { status, headers: { "retry-after": retryAfter } }
    })
    yield* events("acme", answers.length)
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [60_000] }))
    const sql = yield* SqlClient.SqlClient
    const pauses = sql<{ millis: number }>`
      SELECT (extract(epoch FROM r.next_attempt_at - a.at) * 1000)::int - a.duration_millis AS millis
      FROM retries r JOIN delivery_attempts a USING (integrator_id, event, round) ORDER BY r.event`
    yield* untilTrue(Effect.map(pauses, (rows) => rows.length === answers.length))
    const [first, second, third, fourth] = (yield* pauses).map(({ millis }) => millis)
    assert.deepStrictEqual([first, second, third], [100_000, 110_000, 120_000])
    assert.isAtLeast(fourth ?? 0, 48_000)
    assert.isAtMost(fourth ?? Infinity, 72_000)
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("a rotated secret signs on beside the new one until it expires", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const old = yield* endpoint("acme", `${hook.origin}/hook`)
    const endpoints = yield* WebhookEndpoints
    const rotated = yield* endpoints.rotateSecret(acme, hookId)
    const current = WebhookSecret.make(rotated.secret)
    yield* event("acme")
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [1000] }))
    yield* untilTrue(allDelivered)
    const sql = yield* SqlClient.SqlClient
    yield* sql`UPDATE webhook_secrets SET expires_at = now() - interval '1 second' WHERE expires_at IS NOT NULL`
    yield* event("acme")
    yield* untilTrue(allDelivered)
    const verified = hook.received.map(({ body, headers }) =>
      (secret: WebhookSecret) => {
        const signature = `${headers["x-service-signature"]}`
        const nowSeconds = Number(headers["webhook-timestamp"])
        return Effect.isSuccess(verify({ secrets: [secret], signature, body, nowSeconds, toleranceSeconds: 5 }))
      })
    const byBoth = yield* Effect.forEach(verified, (by) => Effect.all([by(current), by(old)]))
    assert.deepStrictEqual(byBoth, [[true, true], [true, false]])
    const tags = hook.received.map(({ headers }) => `${headers["x-service-signature"]}`.match(/v1=/g)?.length)
    assert.deepStrictEqual(tags, [2, 1])
  }).pipe(Effect.scoped, Effect.provide(services())))
