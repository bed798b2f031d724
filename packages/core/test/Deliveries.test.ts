import { value } from "@card-rewards/core/Database"
import { Deliveries, type Outgoing } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { Unavailable } from "@card-rewards/domain/Errors"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { liveLayer } from "./TestLayer.ts"

/** The first read of signing secrets meets a database that is away. */
const awayAtFirst = Layer.effect(WebhookEndpoints, Effect.map(WebhookEndpoints, (real) => {
  let reads = 0
  return WebhookEndpoints.of({
    ...real,
    signingSecrets: (...endpoint) =>
      reads++ === 0 ? Effect.fail(new Unavailable({ message: "away" })) : real.signingSecrets(...endpoint)
  })
})).pipe(Layer.provide(WebhookEndpoints.layer({ allowPrivateNetwork: true })))

const services = Layer.merge(DeliveryLog.layer, Deliveries.layer({ retryDelays: [60_000] })).pipe(
  Layer.provideMerge(awayAtFirst),
  Layer.provideMerge(liveLayer)
)

layer(services, { excludeTestServices: true })("Deliveries", (it) => {
  it.effect("secrets that could not be read are read again at the next look", () =>
    Effect.gen(function*() {
      const integratorId = IntegratorId.make("acme")
      const id = EndpointId.make("hook")
      yield* (yield* Integrators).create(integratorId)
      yield* (yield* WebhookEndpoints).create(integratorId, { id, url: "http://127.0.0.1:9/" })
      yield* (yield* DeliveryLog).ping(integratorId, id)
      const sql = yield* SqlClient.SqlClient
      const { claim } = yield* Deliveries
      const now = yield* Clock.currentTimeMillis
      const options = { now, limit: 1, perEndpoint: 1, inFlight: new Map(), slow: new Set<string>(), slowLimit: 1 }
      // what cannot be signed is not claimed
      assert.strictEqual((yield* Effect.flip(claim(options)))._tag, "Unavailable")
      const [outgoing] = yield* claim(options)
      assert.lengthOf(outgoing?.secrets ?? [], 1)
      yield* sql`UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL, claimed_until = NULL`
    }))

  it.effect("a look is remembered while all have more than they may be sent; not beyond 250 ms, a failure or a deletion", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { claim, record } = yield* Deliveries
      const endpoints = yield* WebhookEndpoints
      const url = "http://127.0.0.1:9/"
      const join = Effect.fnUntraced(function*(name: string, deliveries: number) {
        const integratorId = IntegratorId.make(name)
        yield* (yield* Integrators).create(integratorId)
        yield* endpoints.create(integratorId, { id: EndpointId.make("hook"), url })
        yield* sql`WITH stored AS (
            INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
            SELECT ${integratorId}, n, 'evt_' || n, 'webhook.ping', now(), '{}'
            FROM generate_series(1, ${value.int4(deliveries)}) AS n RETURNING event
          )
          INSERT INTO deliveries (integrator_id, event, round, generation, state, created_at, next_attempt_at)
          SELECT ${integratorId}, event, 1, 1, 'pending', now(), now() - interval '1 minute' FROM stored`
      })
      const begin = yield* Clock.currentTimeMillis
      /** Of whom something was claimed; each may have two. */
      const claimed = Effect.fnUntraced(function*(after: number, slow: ReadonlyArray<string> = []) {
        const now = begin + after
        const outgoing = yield* claim({
          now,
          limit: 512,
          perEndpoint: 2,
          inFlight: new Map(),
          slow: new Set(slow),
          slowLimit: 256
        })
        return { outgoing, names: [...new Set(outgoing.map(({ claim }) => claim.integratorId))] }
      })
      const fail = ({ outgoing }: { readonly outgoing: ReadonlyArray<Outgoing> }) =>
        record(outgoing.map(({ claim }) =>
          ({ claim, url, startedAt: begin, durationMillis: 1, result: { error: "reset" } })), begin)

      // a look that goes on behind another one's end is not the whole
      assert.deepStrictEqual((yield* claimed(0)).names, [])
      yield* join("many-1", 100)
      assert.deepStrictEqual((yield* claimed(0)).names, ["many-1"])
      yield* join("many-2", 100)
      assert.deepStrictEqual((yield* claimed(249)).names, ["many-1"])
      assert.deepStrictEqual((yield* claimed(250)).names, ["many-1", "many-2"])
      yield* join("many-3", 100)
      const failing = yield* claimed(260)
      assert.deepStrictEqual(failing.names, ["many-1", "many-2"])
      yield* fail(failing)
      assert.deepStrictEqual((yield* claimed(270)).names, ["many-1", "many-2", "many-3"])
      yield* join("many-4", 100)
      assert.lengthOf((yield* claimed(275)).names, 4)
      yield* sql`UPDATE webhook_endpoints SET failures = 0`
      assert.lengthOf((yield* claimed(280)).names, 4)
      yield* join("many-5", 100)
      assert.lengthOf((yield* claimed(285)).names, 4)
      assert.lengthOf((yield* claimed(290, ["many-1"])).names, 5)
      yield* join("many-6", 1)
      yield* endpoints.remove(IntegratorId.make("many-2"), EndpointId.make("hook"))
      assert.deepStrictEqual((yield* claimed(300)).names, ["many-1", "many-3", "many-4", "many-5"])
      // one had nothing: the next claim looks again
      assert.deepStrictEqual((yield* claimed(310)).names, ["many-1", "many-3", "many-4", "many-5", "many-6"])
      yield* sql`UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL, claimed_until = NULL`
    }))

  it.effect("nobody waits for an endpoint's lock: what needs it is busy while another has it, and the rest is recorded", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const names = ["locked", "failing", "sound"].map((name) => IntegratorId.make(name))
      const id = EndpointId.make("hook")
      for (const integratorId of names) {
        yield* (yield* Integrators).create(integratorId)
        yield* (yield* WebhookEndpoints).create(integratorId, { id, url: "http://127.0.0.1:9/" })
      }
      const { claim, record } = yield* Deliveries
      /** Of each endpoint one success, or as `failed` says; recorded while somebody holds the first endpoint. */
      const recordedBeside = Effect.fnUntraced(function*(failed: ReadonlyArray<string> = []) {
        for (const integratorId of names) yield* (yield* DeliveryLog).ping(integratorId, id)
        const now = yield* Clock.currentTimeMillis
        const options = { now, limit: 512, perEndpoint: 1, inFlight: new Map(), slow: new Set<string>(), slowLimit: 9 }
        const outcomes = (yield* claim(options)).map(({ claim, url }) => {
          const status = failed.includes(claim.integratorId) ? 500 : 200
          return { claim, url, startedAt: now, durationMillis: 1, result: { status, answer: "" } }
        })
        assert.lengthOf(outcomes, names.length)
        const holding = yield* Deferred.make<void>()
        const enough = yield* Deferred.make<void>()
        const held = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
          yield* sql`SELECT FROM webhook_endpoints WHERE integrator_id = 'locked' FOR UPDATE`
          yield* Deferred.succeed(holding, undefined)
          yield* Deferred.await(enough)
        })))
        yield* Deferred.await(holding)
        const first = yield* record(outcomes, now)
        yield* Deferred.succeed(enough, undefined)
        yield* Fiber.join(held)
        const second = yield* record(first.busy, now)
        assert.deepStrictEqual(second, { held: first.busy.length, busy: [] })
        yield* sql`UPDATE webhook_endpoints SET failures = 0, probe_at = NULL, unsettled = false`
        yield* sql`UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL WHERE state = 'pending'`
        return { held: first.held, busy: first.busy.map(({ claim }) => claim.integratorId) }
      })
      assert.deepStrictEqual(yield* recordedBeside(), { held: 3, busy: [] })
      assert.deepStrictEqual(yield* recordedBeside(["failing"]), { held: 3, busy: [] })
      assert.deepStrictEqual(yield* recordedBeside(["locked", "failing"]), { held: 2, busy: ["locked"] })
      yield* sql`UPDATE webhook_endpoints SET unsettled = true WHERE integrator_id IN ('locked', 'failing')`
      assert.deepStrictEqual(yield* recordedBeside(), { held: 2, busy: ["locked"] })
    }))

  it.effect("claiming and recording read what is claimed, however much waits, was delivered, or is known to the planner", () =>
    Effect.gen(function*() {
      const integratorId = IntegratorId.make("busy")
      const id = EndpointId.make("hook")
      yield* (yield* Integrators).create(integratorId)
      yield* (yield* WebhookEndpoints).create(integratorId, { id, url: "http://127.0.0.1:9/" })
      const sql = yield* SqlClient.SqlClient
      /** Deliveries with these numbers, in rewards that are not in their order. */
      const store = (kind: "delivered" | "due" | "later", from: number, to: number, rewards: number) =>
        sql`WITH stored AS (
            INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
            SELECT ${integratorId}, n, 'evt_' || n, 'reward.pending', now(), '{}'
            FROM generate_series(${value.int4(from)}, ${value.int4(to)}) AS n RETURNING event
          )
          INSERT INTO deliveries (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at)
          SELECT ${integratorId}, event, 1, 1, ${value.int4(from)} + event * 7919 % ${value.int4(rewards)},
            CASE ${kind} WHEN 'delivered' THEN 'delivered' ELSE 'pending' END, now(),
            CASE ${kind} WHEN 'due' THEN now() WHEN 'later' THEN now() + interval '1 hour' END FROM stored`
      const { claim, record } = yield* Deliveries
      // what the session has read and not reported yet; nothing is reported in mid-transaction
      const read = Effect.map(
        sql<{ rows: number }>`SELECT (seq_tup_read + idx_tup_fetch)::int4 AS rows FROM pg_stat_xact_user_tables
          WHERE relname = 'deliveries'`,
        ([row]) => row?.rows ?? 0
      )
      const rowsRead = sql.withTransaction(Effect.gen(function*() {
        const before = yield* read
        const now = yield* Clock.currentTimeMillis
        const options = { now, limit: 512, perEndpoint: 16, inFlight: new Map(), slow: new Set<string>(), slowLimit: 256 }
        const outgoing = yield* claim(options)
        // sets back what was blocked
        yield* claim(options)
        const outcomes = outgoing.map(({ claim, url }) => ({ claim, url, startedAt: now, durationMillis: 1, result }))
        const recorded = yield* record(outcomes, now)
        return { recorded, rows: (yield* read) - before }
      }))
      const result = { status: 200, answer: "" }
      /** Of ten rewards the first delivery is claimed and recorded, and the second set back and made due again. */
      const expectFew = Effect.fnUntraced(function*() {
        const { recorded, rows } = yield* rowsRead
        assert.strictEqual(recorded.held, 10)
        assert.isAtMost(rows, 300)
      })
      yield* store("delivered", 1, 20_000, 20_000)
      yield* sql`ANALYZE events, deliveries`
      yield* store("later", 20_001, 60_000, 20_000)
      yield* store("due", 60_001, 60_020, 10)
      yield* expectFew()
      yield* sql`ANALYZE events, deliveries`
      yield* expectFew()
      yield* sql`UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL
        WHERE integrator_id = ${integratorId} AND event % 1000 > 0`
      yield* sql`ANALYZE events, deliveries`
      yield* store("due", 60_021, 60_040, 10)
      yield* expectFew()
    }))
})
