import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { Secrets } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { type RetryDelays } from "@card-rewards/domain/Delivery"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { verify, type WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Connector } from "@card-rewards/worker/Connector"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { NodeCrypto } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { createServer, type IncomingHttpHeaders } from "node:http"

interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A receiver whose answers the test changes; `undefined` never answers. */
const receiver = Effect.acquireRelease(
  Effect.callback<{ port: number; received: Array<Received>; answer: (request: Received) => number | undefined; close: () => void }>(
    (resume) => {
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const one = { path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks).toString() }
          state.received.push(one)
          const status = state.answer(one)
          if (status !== undefined) response.writeHead(status).end("answered")
        })
      })
      const received: Array<Received> = []
      const state = {
        port: 0,
        received,
        answer: (_: Received): number | undefined => 200,
        close: () => {
          server.closeAllConnections()
          server.close()
        }
      }
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(Object.assign(state, { port: typeof address === "object" ? address?.port ?? 0 : 0 })))
      })
    }
  ),
  (state) => Effect.sync(state.close)
)

const services = (retryDelays: RetryDelays) =>
  Layer.unwrap(Effect.gen(function*() {
    const url = yield* TestDatabase.make({ fingerprint: `deliveries_${process.pid}`, migrate: Database.migrate })
    return Layer.mergeAll(Deliveries.layer({ retryDelays }), Connector.layer({ allowPrivateNetwork: true })).pipe(
      Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
      Layer.provide(Secrets.layer({ keys: [Redacted.make(new Uint8Array(32).fill(7))] })),
      Layer.provideMerge(Database.layer({ url, poolSize: 6, applicationName: "test" })),
      Layer.provideMerge(NodeCrypto.layerMac)
    )
  }))

const endpoint = Effect.fnUntraced(function*(name: string, url: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt) VALUES (${name}, now(), '0123456789abcdef')`
  yield* sql`INSERT INTO vaults (integrator_id, vault_id) VALUES (${name}, 'sandbox')`
  const endpoints = yield* WebhookEndpoints
  const created = yield* endpoints.create(IntegratorId.make(name), { id: EndpointId.make("hook"), url })
  return created.secret as WebhookSecret
})

const event = Effect.fnUntraced(function*(name: string, number: number, reward?: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO events VALUES (${name}, ${BigInt(number)}, ${`evt_${name}_${number}`}, 'webhook.ping', now(),
    ${`{"n":${number},"é":"ü"}`})`
  yield* sql`INSERT INTO deliveries (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at)
    VALUES (${name}, ${BigInt(number)}, 1, 1, ${Database.value.int8(reward === undefined ? null : BigInt(reward))}, 'pending', now(), now() - interval '1 minute')`
})

const states = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ state: string; attempts: number }>`SELECT state, attempts FROM deliveries ORDER BY integrator_id, event`
})

const settled = Effect.map(states, (rows) => rows.every(({ state }) => state !== "pending"))
const poll = <E, R>(check: Effect.Effect<boolean, E, R>) =>
  Effect.gen(function*() {
    while (!(yield* check)) yield* Effect.sleep(5)
  }).pipe(Effect.timeout("15 seconds"))

it.live("retries send the same bytes with signatures that verify, until the answer is 2xx", () =>
  Effect.gen(function*() {
    const hook = yield* receiver
    const secret = yield* endpoint("acme", `http://127.0.0.1:${hook.port}/hook`)
    hook.answer = () => hook.received.length < 3 ? 500 : 204
    yield* event("acme", 1)
    yield* Layer.build(WebhookDispatcher.layer)
    yield* poll(settled)
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
    const hook = yield* receiver
    yield* endpoint("acme", `http://127.0.0.1:${hook.port}/hook`)
    hook.answer = ({ body }) => body.includes("\"n\":1,") ? 500 : 200
    for (const [number, reward] of [[1, 1], [2, 1], [3, 2], [4, 2], [5, 1]] as const) yield* event("acme", number, reward)
    yield* Layer.build(WebhookDispatcher.layer)
    yield* poll(settled)
    const order = hook.received.map(({ body }) => Number(/\d+/.exec(body)?.[0]))
    assert.deepStrictEqual(order.filter((n) => [1, 2, 5].includes(n)), [1, 1, 1, 2, 5])
    assert.deepStrictEqual(order.filter((n) => n === 3 || n === 4), [3, 4])
    assert.deepStrictEqual((yield* states)[0], { state: "exhausted", attempts: 3 })
  }).pipe(Effect.scoped, Effect.provide(services([50, 50]))))

it.live("two dispatchers at once send each delivery once, and a hanging endpoint does not hold up another", () =>
  Effect.gen(function*() {
    const hook = yield* receiver
    yield* endpoint("acme", `http://127.0.0.1:${hook.port}/fast`)
    yield* endpoint("bad", `http://127.0.0.1:${hook.port}/hang`)
    hook.answer = ({ path }) => path === "/hang" ? undefined : 200
    for (let number = 1; number <= 200; number++) {
      yield* event("acme", number)
      if (number <= 40) yield* event("bad", number)
    }
    const sql = yield* SqlClient.SqlClient
    yield* Layer.build(Layer.fresh(WebhookDispatcher.layer))
    yield* Layer.build(Layer.fresh(WebhookDispatcher.layer))
    yield* poll(Effect.map(sql`SELECT 1 FROM deliveries WHERE integrator_id = 'acme' AND state = 'pending'`, (rows) => rows.length === 0))
    assert.strictEqual(hook.received.filter(({ path }) => path === "/fast").length, 200)
    assert.isAtMost(hook.received.filter(({ path }) => path === "/hang").length, 32)
    hook.close()
  }).pipe(Effect.scoped, Effect.provide(services([60_000]))))

it.live("an expired claim is taken over, its first holder's outcome changes nothing, a deleted endpoint gets nothing", () =>
  Effect.gen(function*() {
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    yield* event("acme", 1)
    const deliveries = yield* Deliveries
    const now = Date.now()
    const options = { now, limit: 10, perEndpoint: 16, inFlight: new Map<string, number>() }
    const first = yield* deliveries.claim(options)
    assert.strictEqual(first.length, 1)
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 59_000 })).length, 0)
    const second = yield* deliveries.claim({ ...options, now: now + 60_000 })
    assert.strictEqual(second.length, 1)
    assert.strictEqual((yield* deliveries.stillClaimed(first, now)).length, 0)
    const outcome = { url: "http://127.0.0.1:9/hook", startedAt: now, durationMillis: 1, result: { status: 200, answer: "" } }
    assert.strictEqual(yield* deliveries.record(first.map((claim) => ({ ...outcome, claim })), now), 0)
    assert.strictEqual((yield* deliveries.stillClaimed(second, now)).length, 1)
    const endpoints = yield* WebhookEndpoints
    yield* endpoints.remove(IntegratorId.make("acme"), EndpointId.make("hook"))
    assert.strictEqual((yield* deliveries.stillClaimed(second, now)).length, 0)
    assert.strictEqual(yield* deliveries.record(second.map((claim) => ({ ...outcome, claim })), now), 0)
  }).pipe(Effect.scoped, Effect.provide(services([1000]))))

it.live("after 10 failures in a row one probe goes out at a time, of the delivery due longest; success closes the breaker", () =>
  Effect.gen(function*() {
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    for (let number = 1; number <= 20; number++) yield* event("acme", number)
    const deliveries = yield* Deliveries
    const now = Date.now()
    const options = { now, limit: 100, perEndpoint: 16, inFlight: new Map<string, number>() }
    const outcome = { url: "http://127.0.0.1:9/hook", startedAt: now, durationMillis: 0 }
    const failed = yield* deliveries.claim(options)
    yield* deliveries.record(failed.map((claim) => ({ ...outcome, claim, result: { error: "reset" } })), now)
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 29_000 })).length, 0)
    const probe = yield* deliveries.claim({ ...options, now: now + 30_000 })
    assert.deepStrictEqual(probe.map(({ event, probe }) => [event, probe]), [[17n, true]])
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 31_000 })).length, 0)
    yield* deliveries.record(probe.map((claim) => ({ ...outcome, claim, result: { status: 200, answer: "" } })), now)
    assert.strictEqual((yield* deliveries.claim({ ...options, now: now + 31_000 })).length, 3)
  }).pipe(Effect.scoped, Effect.provide(services([3_600_000]))))
