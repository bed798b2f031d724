import { type Claim, Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { Vault } from "@card-rewards/core/Vault"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { liveLayer } from "./TestLayer.ts"

const delivering = Deliveries.layer({ retryDelays: [60_000, 60_000] })
const services = Layer.mergeAll(DeliveryLog.layer, delivering, Vault.layer).pipe(
  Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
  Layer.provideMerge(liveLayer)
)

const id = EndpointId.make("hook")
const url = "http://127.0.0.1:9/"
let made = 0

/** An integrator with an endpoint and no event yet. */
const setUp = Effect.gen(function*() {
  const integratorId = IntegratorId.make(`log-${made++}`)
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* WebhookEndpoints).create(integratorId, { id, url })
  return integratorId
})

const claim = (integratorId: IntegratorId, after = 0) =>
  Effect.gen(function*() {
    const now = (yield* Clock.currentTimeMillis) + after
    const { claim } = yield* Deliveries
    const all = yield* claim({ now, limit: 512, perEndpoint: 16, inFlight: new Map(), slow: new Set(), slowLimit: 256 })
    return all.map(({ claim }) => claim).filter((one) => one.integratorId === integratorId)
  })

const end = Effect.fnUntraced(function*(claims: ReadonlyArray<Claim>, status: number) {
  const { record } = yield* Deliveries
  const now = yield* Clock.currentTimeMillis
  const result = { status, answer: "" }
  return yield* record(claims.map((claim) => ({ claim, url, startedAt: now, durationMillis: 1, result })), now)
})

/** Events of reward 1, numbered from 1, with their deliveries. */
const rewardEvents = Effect.fnUntraced(function*(integratorId: IntegratorId, count: number) {
  const sql = yield* SqlClient.SqlClient
  for (let number = 1; number <= count; number++) {
    yield* sql`INSERT INTO deliveries
        (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at)
      SELECT integrator_id, event, 1, 1, 1, 'pending', created_at, created_at FROM events
      WHERE integrator_id = ${integratorId} AND event = ${BigInt(number)}`
  }
})

layer(services, { excludeTestServices: true })("DeliveryLog", (it) => {
  it.effect("a redelivery asked for twice is one; what failed before is cancelled in its favour, and shown", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { list, ping, redeliver } = yield* DeliveryLog
      const event = yield* ping(integratorId, id)
      assert.deepStrictEqual((yield* redeliver(integratorId, id, event)).attempts, [])
      assert.lengthOf((yield* list(integratorId, id, { limit: 10, cursor: undefined })).deliveries, 1)
      yield* end(yield* claim(integratorId), 500)
      const [first, second] = yield* Effect.all([
        redeliver(integratorId, id, event),
        redeliver(integratorId, id, event)
      ], { concurrency: 2 })
      assert.deepStrictEqual(first, second)
      const { deliveries } = yield* list(integratorId, id, { limit: 10, cursor: undefined })
      assert.deepStrictEqual(deliveries.map(({ state }) => state), ["pending", "cancelled"])
      assert.deepStrictEqual(deliveries.map(({ attempts }) => attempts.map(({ status }) => status)), [[], [500]])
      const claims = yield* claim(integratorId)
      assert.deepStrictEqual(claims.map(({ attempt, round }) => [round, attempt]), [[2, 1]])
      yield* end(claims, 200)
      yield* redeliver(integratorId, id, event)
      const pending = yield* list(integratorId, id, { limit: 10, cursor: undefined, state: "pending" })
      assert.lengthOf(pending.deliveries, 1)
    }))

  it.effect("a fresh delivery waits for as long as the one that it replaces may be under way", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { ping, redeliver } = yield* DeliveryLog
      const event = yield* ping(integratorId, id)
      yield* end(yield* claim(integratorId), 500)
      const [again] = yield* claim(integratorId, 100_000)
      assert.deepStrictEqual([again?.round, again?.attempt], [1, 2])
      const fresh = yield* redeliver(integratorId, id, event)
      assert.strictEqual<number | undefined>(fresh.nextAttemptAt, again?.claimedUntil)
      assert.deepStrictEqual(yield* claim(integratorId, 159_000), [])
      assert.deepStrictEqual((yield* claim(integratorId, 161_000)).map(({ round }) => round), [2])
    }))

  it.effect("a fresh delivery takes its event's place in the order of its reward, beside nothing in flight", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { ping, redeliver } = yield* DeliveryLog
      const sql = yield* SqlClient.SqlClient
      const events = [yield* ping(integratorId, id), yield* ping(integratorId, id)]
      yield* sql`DELETE FROM deliveries WHERE integrator_id = ${integratorId}`
      yield* rewardEvents(integratorId, 2)
      yield* end(yield* claim(integratorId), 200)
      const second = yield* claim(integratorId)
      assert.deepStrictEqual(second.map(({ event }) => event), [2n])
      // pings belong to no reward; here they stand for events of one
      yield* redeliver(integratorId, id, events[0] ?? "")
      yield* sql`UPDATE deliveries SET reward = 1 WHERE integrator_id = ${integratorId} AND round = 2`
      assert.deepStrictEqual(yield* claim(integratorId), [])
      yield* end(second, 500)
      assert.deepStrictEqual((yield* claim(integratorId, 100)).map(({ event, round }) => [event, round]), [[1n, 2]])
      assert.deepStrictEqual(yield* claim(integratorId, 59_000), [])
    }))

  it.effect("a deleted endpoint's deliveries are cancelled batch by batch, a changed URL's become due", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const { remove, update } = yield* WebhookEndpoints
      const deliveries = yield* Deliveries
      yield* sql`INSERT INTO deliveries (integrator_id, event, round, generation, state, created_at, next_attempt_at)
        SELECT ${integratorId}, n, 1, 1, 'pending', now(), now() + interval '1 day' FROM generate_series(1, 2500) AS n`
      const count = (condition: string) =>
        Effect.map(
          sql`SELECT 1 FROM deliveries WHERE integrator_id = ${integratorId} AND ${sql.literal(condition)}`,
          (rows) => rows.length
        )
      yield* update(integratorId, id, `${url}b`)
      const due: Array<number> = []
      while (yield* deliveries.settle) due.push(yield* count("next_attempt_at <= now()"))
      assert.deepStrictEqual(due, [1000, 2000, 2500])
      yield* remove(integratorId, id)
      const cancelled: Array<number> = []
      while (yield* deliveries.settle) cancelled.push(yield* count("state = 'cancelled'"))
      assert.deepStrictEqual(cancelled, [1000, 2000, 2500])
    }))

  it.effect("the last page costs as much as the first", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { list, ping } = yield* DeliveryLog
      const sql = yield* SqlClient.SqlClient
      yield* ping(integratorId, id)
      yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
        SELECT ${integratorId}, n, 'evt_' || n, 'webhook.ping', now() - (30000 - n) * interval '1 second', '{}'
        FROM generate_series(2, 30000) AS n`
      yield* sql`INSERT INTO deliveries (integrator_id, event, round, generation, state, created_at)
        SELECT ${integratorId}, event, 1, 1, CASE WHEN event % 1000 = 3 THEN 'exhausted' ELSE 'delivered' END,
          created_at
        FROM events WHERE integrator_id = ${integratorId} AND event > 1`
      yield* sql`ANALYZE events, deliveries`
      const at = (older: number) => `d${Date.now() - older * 1_000}-1-1`
      // what the session has read and not reported yet; nothing is reported in mid-transaction
      const read = Effect.map(
        sql<{ rows: number }>`SELECT (seq_tup_read + idx_tup_fetch)::int AS rows FROM pg_stat_xact_user_tables
          WHERE relname = 'deliveries'`,
        ([row]) => row?.rows ?? 0
      )
      const rowsTouched = (cursor?: string, state?: "exhausted") =>
        sql.withTransaction(Effect.gen(function*() {
          const before = yield* read
          const { deliveries } = yield* list(integratorId, id, { limit: 20, cursor, state })
          assert.isNotEmpty(deliveries)
          return (yield* read) - before
        }))
      assert.isAtLeast(yield* rowsTouched(), 20)
      const pages = [
        rowsTouched(at(29_900)),
        rowsTouched(undefined, "exhausted"),
        rowsTouched(at(28_000), "exhausted")
      ]
      for (const page of pages) {
        assert.isAtMost(yield* page, 100)
      }
    }))

  it.effect("pings are in the event log, in order with everything else", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { ping } = yield* DeliveryLog
      const { deposit } = yield* Vault
      const sql = yield* SqlClient.SqlClient
      const usdc = { asset: "USDC", amount: 1n } as const
      const reference = (number: number) => Reference.make(`d${number}`)
      yield* Effect.forEach([1, 2, 3, 4, 5, 6], (number) =>
        number % 2 === 0
          ? Effect.orDie(Effect.asVoid(ping(integratorId, id)))
          : Effect.orDie(Effect.asVoid(deposit(integratorId, { reference: reference(number), amount: usdc }))), {
        concurrency: 6
      })
      const rows = yield* sql<{ event: bigint; kind: string; body: string }>`SELECT event, kind, body FROM events
        WHERE integrator_id = ${integratorId} ORDER BY event`
      assert.deepStrictEqual(rows.map(({ event }) => event), [1n, 2n, 3n, 4n, 5n, 6n])
      const pings = rows.filter(({ kind }) => kind === "webhook.ping")
      assert.lengthOf(pings, 3)
      for (const { body } of pings) assert.match(body, /"data":\{\}\}$/)
    }))
})
