import { Deliveries } from "@card-rewards/core/Deliveries"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { verify, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { untilTrue } from "@card-rewards/testing/Polling"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { Connector, ConnectorError } from "@card-rewards/worker/Connector"
import { DispatcherWakeUp } from "@card-rewards/worker/DispatcherWakeUp"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Latch, Layer, type Redacted, References } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { endpoint, event, events, services as layerOf, settled, states } from "./Dispatching.ts"

/** As a process claims that has nothing in flight. */
const unused = { perEndpoint: 16, inFlight: new Map<string, number>(), slow: new Set<string>(), slowLimit: 256 }

const services = (retryDelays: RetryDelays, through = (url: Redacted.Redacted) => url) =>
  layerOf({ retryDelays, through })

it.live("retries send the same bytes with signatures that verify, until the answer is 2xx", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const secret = yield* endpoint("acme", `${hook.origin}/hook`)
    hook.answer(() => hook.received.length < 3 ? 500 : 204)
    yield* event("acme", 1)
    yield* Layer.build(WebhookDispatcher.layer)
    yield* untilTrue(settled)
    assert.deepStrictEqual(yield* states, [{ state: "delivered", attempts: 3 }])
    assert.deepStrictEqual(hook.received.map(({ body }) => body), Array(3).fill("{\"n\":1,\"é\":\"ü\"}"))
    assert.deepStrictEqual(hook.received.map(({ headers }) => headers["x-service-attempt"]), ["1", "2", "3"])
    for (const { body, headers } of hook.received) {
      const signature = `${headers["x-service-signature"]}`
      const nowSeconds = Number(headers["webhook-timestamp"])
      yield* verify({ secrets: [secret], signature, body, nowSeconds, toleranceSeconds: 5 })
    }
  }).pipe(Effect.scoped, Effect.provide(services([20, 20, 20]))))

it.live("events of one reward arrive in order, and a failing one holds up only its reward; then it is exhausted", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    hook.answer(({ body }) => body.includes("\"n\":1,") ? 500 : 200)
    const events = [[1, 1], [2, 1], [3, 2], [4, 2], [5, 1]] as const
    for (const [number, reward] of events) yield* event("acme", number, reward)
    yield* Layer.build(WebhookDispatcher.layer)
    yield* untilTrue(settled)
    const order = hook.received.map(({ body }) => Number(/\d+/.exec(body)?.[0]))
    assert.deepStrictEqual(order.filter((n) => [1, 2, 5].includes(n)), [1, 1, 1, 2, 5])
    assert.deepStrictEqual(order.filter((n) => n === 3 || n === 4), [3, 4])
    assert.deepStrictEqual((yield* states)[0], { state: "exhausted", attempts: 3 })
  }).pipe(Effect.scoped, Effect.provide(services([50, 50]))))

it.live("two dispatchers at once send each delivery once, and a hanging endpoint does not hold up another", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/fast`)
    yield* endpoint("bad", `${hook.origin}/hang`)
    hook.answer(({ path }) => path === "/hang" ? undefined : 200)
    for (let number = 1; number <= 200; number++) {
      yield* event("acme", number)
      if (number <= 40) yield* event("bad", number)
    }
    const sql = yield* SqlClient.SqlClient
    yield* Layer.build(Layer.fresh(WebhookDispatcher.layer))
    yield* Layer.build(Layer.fresh(WebhookDispatcher.layer))
    const left = sql`SELECT 1 FROM deliveries WHERE integrator_id = 'acme' AND state = 'pending'`
    yield* untilTrue(Effect.map(left, (rows) => rows.length === 0))
    assert.strictEqual(hook.received.filter(({ path }) => path === "/fast").length, 200)
    assert.isAtMost(hook.received.filter(({ path }) => path === "/hang").length, 32)
    yield* hook.close
  }).pipe(Effect.scoped, Effect.provide(services([60_000]))))

it.live("a dispatcher that stops at any moment sends and records what it has claimed", () =>
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
        yield* Layer.build(Layer.fresh(WebhookDispatcher.layer))
        yield* untilTrue(Effect.sync(() => hook.received.length > before + 20 + 7 * stop))
        yield* Effect.sleep(stop)
      }).pipe(Effect.scoped)
      assert.deepStrictEqual(yield* sql`SELECT FROM deliveries WHERE claimed_until IS NOT NULL`, [], `stop ${stop}`)
    }
    assert.isBelow(hook.received.length, 16_000, "the last stop came when all was delivered")
    yield* hook.close
  }).pipe(Effect.scoped, Effect.provide(services([60_000]))))

it.live("an expired claim is taken over, its first holder changes nothing, a deleted endpoint gets nothing", () =>
  Effect.gen(function*() {
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    yield* event("acme", 1)
    const deliveries = yield* Deliveries
    const now = yield* Clock.currentTimeMillis
    const options = { now, limit: 10, ...unused }
    const first = yield* deliveries.claim(options)
    assert.deepStrictEqual(first.map(({ sendBefore }) => sendBefore - now), [40_000])
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 59_000 })).length, 0)
    const second = yield* deliveries.claim({ ...options, now: now + 60_000 })
    assert.strictEqual(second.length, 1)
    const result = { status: 200, answer: "" }
    const outcome = { url: "http://127.0.0.1:9/hook", startedAt: now, durationMillis: 1, result }
    assert.deepStrictEqual(yield* deliveries.record(first.map(({ claim }) => ({ ...outcome, claim })), now), { held: 0, busy: [] })
    const endpoints = yield* WebhookEndpoints
    yield* endpoints.remove(IntegratorId.make("acme"), EndpointId.make("hook"))
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 120_000 })).length, 0)
    assert.isTrue(yield* deliveries.settle)
    assert.isFalse(yield* deliveries.settle)
    assert.deepStrictEqual(yield* deliveries.record(second.map(({ claim }) => ({ ...outcome, claim })), now), { held: 0, busy: [] })
  }).pipe(Effect.scoped, Effect.provide(services([1000]))))

it.live("the wake-up signal starts a scan before the idle pause ends", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    const stored = yield* Latch.make()
    const deliveries = yield* Deliveries
    let scans = 0
    const counting = Layer.succeed(Deliveries, {
      ...deliveries,
      claim: (options) => Effect.tap(deliveries.claim(options), () => Effect.sync(() => void scans++))
    })
    const dispatcher = WebhookDispatcher.layer.pipe(Layer.provide([counting, Layer.succeed(DispatcherWakeUp, stored)]))
    const now = yield* Clock.currentTimeMillis
    const standing = Effect.gen(function*() {
      yield* TestClock.setTime(now)
      yield* Layer.build(dispatcher)
      yield* TestClock.withLive(Effect.gen(function*() {
        yield* untilTrue(Effect.sync(() => scans === 1))
        yield* event("acme", 1)
        yield* stored.open
        yield* untilTrue(Effect.sync(() => hook.received.length === 1))
      }))
      // the pause of the fiber that records has to end
      yield* TestClock.adjust("1 second")
      yield* TestClock.withLive(untilTrue(settled))
    })
    yield* standing.pipe(Effect.provide(TestClock.layer()))
    yield* hook.close
  }).pipe(Effect.scoped, Effect.provide(services([1000]))))

it.live("a claim that is as good as over when its answer comes is not sent", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    yield* event("acme", 1)
    const sql = yield* SqlClient.SqlClient
    const claims = sql<{ until: number }>`SELECT claimed_until AS until FROM deliveries WHERE claimed_until IS NOT NULL`
    yield* Layer.build(WebhookDispatcher.layer)
    yield* untilTrue(Effect.map(claims, (rows) => rows.length === 1))
    const [first] = yield* claims
    yield* untilTrue(Effect.map(claims, ([again]) => again?.until !== first?.until))
    assert.strictEqual(hook.received.length, 0)
    yield* hook.close
  }).pipe(Effect.scoped, Effect.provide(layerOf({ retryDelays: [1000], claimMillis: 0 }))))

it.live("after 10 failures in a row one probe at a time, of the delivery due longest; success closes the breaker", () =>
  Effect.gen(function*() {
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    for (let number = 1; number <= 20; number++) yield* event("acme", number)
    const deliveries = yield* Deliveries
    const now = yield* Clock.currentTimeMillis
    const options = { now, limit: 512, ...unused }
    const outcome = { url: "http://127.0.0.1:9/hook", startedAt: now, durationMillis: 0 }
    const failed = yield* deliveries.claim(options)
    yield* deliveries.record(failed.map(({ claim }) => ({ ...outcome, claim, result: { error: "reset" } })), now)
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 29_000 })).length, 0)
    const probe = yield* deliveries.claim({ ...options, now: now + 30_000 })
    assert.deepStrictEqual(probe.map(({ claim }) => [claim.event, claim.probe]), [[17n, true]])
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 31_000 })).length, 0)
    yield* deliveries.record(probe.map(({ claim }) => ({ ...outcome, claim, result: { status: 200, answer: "" } })), now)
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 31_000 })).length, 3)
  }).pipe(Effect.scoped, Effect.provide(services([3_600_000]))))

it.live("Retry-After is honoured on 429 and 503, within two delays, and on nothing else", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    const answers = [[429, "100"], [503, "110"], [429, "3600"], [500, "100"]] as const
    hook.answer(({ body }) => {
      const [status, retryAfter] = answers[Number(/\d+/.exec(body)?.[0]) - 1] ?? [200, "0"]
      return { status, headers: { "retry-after": retryAfter } }
    })
    for (const index of answers.keys()) yield* event("acme", index + 1)
    yield* Layer.build(WebhookDispatcher.layer)
    const sql = yield* SqlClient.SqlClient
    const pauses = sql<{ millis: number }>`
      SELECT (extract(epoch FROM d.next_attempt_at - a.at) * 1000)::int - a.duration_millis AS millis
      FROM deliveries d JOIN delivery_attempts a USING (integrator_id, event, round) ORDER BY d.event`
    yield* untilTrue(Effect.map(pauses, (rows) => rows.length === answers.length))
    const [first, second, third, fourth] = (yield* pauses).map(({ millis }) => millis)
    assert.deepStrictEqual([first, second, third], [100_000, 110_000, 120_000])
    assert.isAtLeast(fourth ?? 0, 48_000)
    assert.isAtMost(fourth ?? Infinity, 72_000)
  }).pipe(Effect.scoped, Effect.provide(services([60_000]))))

it.live("a changed URL takes waiting deliveries along, makes them due, and closes the breaker", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/old`)
    hook.answer(({ path }) => path === "/old" ? 500 : 200)
    for (let number = 1; number <= 20; number++) yield* event("acme", number)
    yield* Layer.build(WebhookDispatcher.layer)
    const sql = yield* SqlClient.SqlClient
    const quiet = sql`SELECT 1 FROM webhook_endpoints WHERE failures >= 10
      AND NOT EXISTS (SELECT 1 FROM deliveries WHERE claimed_until IS NOT NULL)`
    yield* untilTrue(Effect.map(quiet, (rows) => rows.length === 1))
    const before = hook.received.length
    const endpoints = yield* WebhookEndpoints
    yield* endpoints.update(IntegratorId.make("acme"), EndpointId.make("hook"), `${hook.origin}/new`)
    const [breaker] = yield* sql<{ failures: number; probeAt: number | null }>`
      SELECT failures, probe_at FROM webhook_endpoints`
    assert.deepStrictEqual(breaker, { failures: 0, probeAt: null })
    yield* untilTrue(settled)
    assert.isTrue((yield* states).every(({ state }) => state === "delivered"))
    assert.deepStrictEqual(hook.received.slice(before).map(({ path }) => path), Array(20).fill("/new"))
  }).pipe(Effect.scoped, Effect.provide(services([3_600_000]))))

it.live("a rotated secret signs on beside the new one until it expires", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const old = yield* endpoint("acme", `${hook.origin}/hook`)
    const endpoints = yield* WebhookEndpoints
    const rotated = yield* endpoints.rotateSecret(IntegratorId.make("acme"), EndpointId.make("hook"))
    const current = WebhookSecret.make(rotated.secret)
    yield* event("acme", 1)
    yield* Layer.build(WebhookDispatcher.layer)
    yield* untilTrue(settled)
    const sql = yield* SqlClient.SqlClient
    yield* sql`UPDATE webhook_secrets SET expires_at = now() - interval '1 second' WHERE expires_at IS NOT NULL`
    yield* event("acme", 2)
    yield* untilTrue(settled)
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
  }).pipe(Effect.scoped, Effect.provide(services([1000]))))

it.live("the database going away for a moment stops nothing for good, and no attempt that was made is lost", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const proxy = yield* NetworkProxy.toDatabase
    const waiting: Array<() => void> = []
    hook.hold((respond) => waiting.push(respond))
    yield* Effect.gen(function*() {
      yield* endpoint("acme", `${hook.origin}/hook`)
      yield* event("acme", 1)
      yield* Layer.build(WebhookDispatcher.layer)
      yield* untilTrue(Effect.sync(() => waiting.length === 1))
      yield* proxy.cut
      for (const respond of waiting) respond()
      yield* Effect.sleep(1_000)
      yield* proxy.restore
      hook.hold(undefined)
      yield* untilTrue(settled.pipe(Effect.catch(() => Effect.succeed(false))))
      yield* event("acme", 2)
      yield* untilTrue(settled)
      assert.deepStrictEqual(yield* states, Array(2).fill({ state: "delivered", attempts: 1 }))
      assert.strictEqual(hook.received.length, 2)
    }).pipe(Effect.scoped, Effect.provide(services([1000], proxy.through)))
  }).pipe(Effect.scoped))

it.live("a defect of the connector counts as a failed attempt, and holds up nothing", () =>
  Effect.gen(function*() {
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    for (let number = 1; number <= 40; number++) yield* event("acme", number)
    let calls = 0
    const broken = Layer.succeed(Connector, {
      post: (_input, done) => {
        if (calls++ % 2 === 0) done(ConnectorError.because("reset"))
        throw new Error("broken by the test")
      }
    })
    yield* Layer.build(WebhookDispatcher.layer.pipe(Layer.provide(broken)))
    const sql = yield* SqlClient.SqlClient
    const closed = sql`UPDATE webhook_endpoints SET failures = 0, probe_at = NULL`
    yield* untilTrue(Effect.andThen(closed, settled))
    assert.deepStrictEqual(yield* states, Array(40).fill({ state: "exhausted", attempts: 2 }))
  }).pipe(
    Effect.scoped,
    Effect.provide(services([20])),
    Effect.provideService(References.MinimumLogLevel, "None")
  ))

/** Attempts of which `condition` is true cannot be stored. */
const refuseAttempts = Effect.fnUntraced(function*(condition: string) {
  const sql = yield* SqlClient.SqlClient
  // no rollback takes a sequence back
  yield* sql`CREATE SEQUENCE refusals`
  yield* sql`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN PERFORM nextval(''refusals''); RAISE EXCEPTION ''refused by the test''; END'`
  yield* sql`CREATE TRIGGER refuse BEFORE INSERT ON delivery_attempts FOR EACH ROW
    WHEN (${sql.literal(condition)}) EXECUTE FUNCTION refuse()`
})

it.live("an outcome that cannot be recorded holds up no other one and gives its place back", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    for (let number = 1; number <= 60; number++) yield* event("acme", number)
    const sql = yield* SqlClient.SqlClient
    yield* refuseAttempts("NEW.event % 20 = 7")
    yield* Layer.build(WebhookDispatcher.layer)
    const left = sql<{ event: bigint; attempts: number }>`
      SELECT event, attempts FROM deliveries WHERE state = 'pending' ORDER BY event`
    yield* untilTrue(Effect.map(left, (rows) => rows.length === 3))
    assert.deepStrictEqual(yield* left, [7n, 27n, 47n].map((event) => ({ event, attempts: 0 })))
    assert.strictEqual(hook.received.length, 60)
  }).pipe(
    Effect.scoped,
    Effect.provide(services([1000])),
    Effect.provideService(References.MinimumLogLevel, "None")
  ))

it.live("where no outcome can be recorded for a while, none is lost", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    for (let number = 1; number <= 3; number++) yield* event("acme", number)
    const sql = yield* SqlClient.SqlClient
    yield* refuseAttempts("true")
    yield* Layer.build(WebhookDispatcher.layer)
    yield* untilTrue(Effect.sync(() => hook.received.length === 3))
    const refusals = sql<{ count: bigint }>`SELECT last_value AS count FROM refusals`
    yield* untilTrue(Effect.map(refusals, ([row]) => (row?.count ?? 0n) > 10n))
    yield* sql`DROP TRIGGER refuse ON delivery_attempts`
    yield* untilTrue(settled)
    assert.deepStrictEqual(yield* states, Array(3).fill({ state: "delivered", attempts: 1 }))
    assert.strictEqual(hook.received.length, 3)
  }).pipe(
    Effect.scoped,
    Effect.provide(services([1000])),
    Effect.provideService(References.MinimumLogLevel, "None")
  ))
