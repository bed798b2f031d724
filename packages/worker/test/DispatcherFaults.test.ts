import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { untilTrue } from "@card-rewards/testing/Polling"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { Connector, ConnectorError } from "@card-rewards/worker/Connector"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Layer, References } from "effect"
import { SqlClient } from "effect/sql"
import { endpoint, event, events, services, allDelivered, states } from "./Dispatching.ts"

it.live("the database going away for a moment stops nothing for good, and no attempt that was made is lost", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const proxy = yield* NetworkProxy.toDatabase
    const waiting: Array<() => void> = []
    hook.hold((respond) => waiting.push(respond))
    yield* Effect.gen(function*() {
      yield* endpoint("acme", `${hook.origin}/hook`)
      yield* event("acme")
      yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [1000] }))
      yield* untilTrue(Effect.sync(() => waiting.length === 1))
      yield* proxy.cut
      for (const respond of waiting) respond()
      yield* Effect.sleep(1_000)
      yield* proxy.restore
      hook.hold(undefined)
      yield* untilTrue(allDelivered.pipe(Effect.catch(() => Effect.succeed(false))))
      yield* event("acme")
      yield* untilTrue(allDelivered)
      assert.deepStrictEqual(yield* states, Array(2).fill({ state: "delivered", attempts: 1 }))
      assert.strictEqual(hook.received.length, 2)
    }).pipe(Effect.scoped, Effect.provide(services({ through: proxy.through })))
  }).pipe(Effect.scoped))

it.live("a defect of the connector counts as a failed attempt, and holds up nothing", () =>
  Effect.gen(function*() {
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    yield* events("acme", 40)
    let calls = 0
    const broken = Layer.succeed(Connector, {
      post: (_input, done) => {
        if (calls++ % 2 === 0) done(ConnectorError.because("reset"))
        throw new Error("broken by the test")
      }
    })
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [20] }).pipe(Layer.provide(broken)))
    const sql = yield* SqlClient.SqlClient
    const closed = sql`UPDATE webhook_endpoints SET failures = 0, probe_at = NULL`
    yield* untilTrue(Effect.andThen(closed, allDelivered))
    assert.deepStrictEqual(yield* states, Array(40).fill({ state: "exhausted", attempts: 2 }))
  }).pipe(
    Effect.scoped,
    Effect.provide(services()),
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

it.live("an endpoint whose attempts cannot be recorded holds up no other one", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    yield* endpoint("other", `${hook.origin}/hook`)
    yield* events("acme", 60)
    yield* events("other", 60)
    const sql = yield* SqlClient.SqlClient
    yield* refuseAttempts("NEW.integrator_id = 'acme'")
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [1000] }))
    const done = sql`SELECT FROM webhook_endpoints WHERE integrator_id = 'other' AND cursor = 60`
    yield* untilTrue(Effect.map(done, (rows) => rows.length === 1))
    assert.deepStrictEqual(yield* sql`SELECT FROM delivery_attempts WHERE integrator_id = 'acme'`, [])
  }).pipe(
    Effect.scoped,
    Effect.provide(services()),
    Effect.provideService(References.MinimumLogLevel, "None")
  ))

it.live("an endpoint whose events cannot be read holds up no other one", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    for (const name of ["acme", "other", "third"]) {
      yield* endpoint(name, `${hook.origin}/hook`)
      yield* events(name, 60)
    }
    const sql = yield* SqlClient.SqlClient
    // no time that a process can decode
    yield* sql`UPDATE events SET stored_at = 'infinity' WHERE integrator_id = 'acme' AND event = 7`
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [1000] }))
    const done = sql`SELECT FROM webhook_endpoints WHERE integrator_id <> 'acme' AND cursor = 60`
    yield* untilTrue(Effect.map(done, (rows) => rows.length === 2))
    assert.deepStrictEqual(yield* sql`SELECT FROM delivery_attempts WHERE integrator_id = 'acme'`, [])
  }).pipe(
    Effect.scoped,
    Effect.provide(services()),
    Effect.provideService(References.MinimumLogLevel, "None")
  ))

it.live("where no attempt can be recorded for a while, none is lost", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    yield* endpoint("acme", `${hook.origin}/hook`)
    yield* events("acme", 3)
    const sql = yield* SqlClient.SqlClient
    yield* refuseAttempts("true")
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [1000] }))
    yield* untilTrue(Effect.sync(() => hook.received.length === 3))
    const refusals = sql<{ count: bigint }>`SELECT last_value AS count FROM refusals`
    yield* untilTrue(Effect.map(refusals, ([row]) => (row?.count ?? 0n) > 3n))
    yield* sql`DROP TRIGGER refuse ON delivery_attempts`
    yield* untilTrue(allDelivered)
    assert.deepStrictEqual(yield* states, Array(3).fill({ state: "delivered", attempts: 1 }))
    assert.strictEqual(hook.received.length, 3)
  }).pipe(
    Effect.scoped,
    Effect.provide(services()),
    Effect.provideService(References.MinimumLogLevel, "None")
  ))

it.live("an endpoint that another session keeps locked beyond its lease holds up no other one", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    for (const name of ["acme", "other", "idle"]) yield* endpoint(name, `${hook.origin}/${name}`)
    const sentTo = (name: string) => hook.received.filter(({ path }) => path === `/${name}`).length
    const answers: Array<() => void> = []
    hook.hold((respond) => answers.push(respond))
    yield* Effect.forEach(["acme", "other"], (name) => events(name, 1))
    yield* Layer.build(WebhookDispatcher.layer({ retryDelays: [1000], leaseMillis: 1_500 }))
    yield* untilTrue(Effect.sync(() => answers.length === 2))
    hook.hold(undefined)
    const sql = yield* SqlClient.SqlClient
    const holding = yield* Latch.make()
    const enough = yield* Latch.make()
    const held = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
      yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
      yield* sql`SELECT FROM webhook_endpoints WHERE integrator_id = 'acme' FOR UPDATE`
      yield* holding.open
      yield* enough.await
    })))
    yield* holding.await
    // the attempt cannot be recorded, so that the endpoint is not given up
    for (const respond of answers) respond()
    const ended = sql`SELECT FROM webhook_endpoints WHERE integrator_id = 'acme' AND work_at < clock_timestamp()`
    yield* untilTrue(Effect.map(ended, (rows) => rows.length === 1))
    const sent = sentTo("acme")
    yield* Effect.forEach(["acme", "other", "idle"], (name) => events(name, 20))
    yield* untilTrue(Effect.sync(() => sentTo("other") >= 21 && sentTo("idle") >= 20))
    assert.strictEqual(sentTo("acme"), sent)
    yield* enough.open
    yield* Fiber.join(held)
    yield* untilTrue(allDelivered)
  }).pipe(
    Effect.scoped,
    Effect.provide(services()),
    Effect.provideService(References.MinimumLogLevel, "None")
  ))
