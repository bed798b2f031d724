import { value } from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { type Instant, instant } from "@card-rewards/domain/Time"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer, Result } from "effect"
import { SqlClient } from "effect/sql"
import { leaseOf, readOf, recordOf, releaseOf } from "./Consuming.ts"
import { measured } from "./Reads.ts"
import { liveLayer } from "./TestLayer.ts"

const services = Layer.merge(DeliveryLog.layer, Deliveries.layer).pipe(
  Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
  Layer.provideMerge(liveLayer)
)

const id = EndpointId.make("hook")
const start = Date.UTC(2026, 0, 1)
let made = 0

/** The time of creation of an event. */
const at = (event: number): Instant => instant(start + event * 1_000)

/** An integrator with an endpoint, and events a second apart, each of its own reward; the even ones are deposits. */
const setUp = Effect.fnUntraced(function*(count: number) {
  const integratorId = IntegratorId.make(`replay-${made++}`)
  const sql = yield* SqlClient.SqlClient
  yield* (yield* Integrators).create(integratorId)
  yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body, reward)
    SELECT ${integratorId}, n, 'evt_' || n, CASE n % 2 WHEN 0 THEN 'vault.deposit_confirmed' ELSE 'reward.pending' END,
      ${value.timestamptz(start)} + n * interval '1 s', now(), n::text, n
    FROM generate_series(1, ${value.int4(count)}) n`
  yield* sql`UPDATE vaults SET events = ${value.int8(BigInt(count))} WHERE integrator_id = ${integratorId}`
  yield* (yield* WebhookEndpoints).create(integratorId, { id, url: "http://127.0.0.1:9/" })
  return integratorId
})

const begin = Effect.fnUntraced(function*(integratorId: IntegratorId, from: Instant, to?: Instant) {
  const { startReplay } = yield* DeliveryLog
  return yield* startReplay(integratorId, id, to === undefined ? { from } : { from, to })
})

const replayOf = { round: null, after: null, events: 32 }

/** What a holder reads of a replay: its events' numbers. */
const readReplay = Effect.fnUntraced(function*(integratorId: IntegratorId, afterMillis = 0) {
  const lease = yield* leaseOf(integratorId, afterMillis)
  const { read } = yield* Deliveries
  const now = yield* Clock.currentTimeMillis
  const request = { ...lease, after: lease.cursor, events: 48, retries: 24, replay: replayOf, maxBytes: 1_000_000 }
  const [reading] = yield* read([request], now)
  const replay = reading?.replay
  if (replay === undefined) return assert.fail("no replay runs")
  return { lease, replay, numbers: replay.events.map(({ event }) => Number(event)) }
})

layer(services, { excludeTestServices: true })("a replay", (it) => {
  it.effect("of a rare kind counts its events alone, beside any number of events of other kinds and integrators", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(20_000)
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE events SET kind = 'webhook.ping' WHERE integrator_id = ${integratorId} AND event IN (5, 15000)`
      // many integrators with a few events each, for which the primary key would be as good
      yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
        SELECT 'other-' || i, n, 'evt', 'reward.pending', now(), now(), '{}'
        FROM generate_series(1, 5000) i, generate_series(1, 4) n`
      yield* sql`ANALYZE events`
      const { startReplay } = yield* DeliveryLog
      const kinds = ["webhook.ping"] as const
      const [replay, { rows }] = yield* measured(startReplay(integratorId, id, { from: at(2), kinds }))
      assert.strictEqual(replay.events, 2)
      assert.isAtMost(rows, 200)
    }))

  it.effect("has the events of its time and kinds, its end excluded, also those from before the endpoint", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(100)
      const { findReplay, startReplay } = yield* DeliveryLog
      const request = { from: at(11), to: at(21), kinds: ["reward.pending"] as const }
      const replay = yield* startReplay(integratorId, id, request)
      assert.deepStrictEqual(replay, { id: "rpl_2", ...request, state: "running", events: 5 })
      assert.deepStrictEqual(yield* findReplay(integratorId, id, "rpl_2"), replay)
      const { numbers } = yield* readReplay(integratorId)
      assert.deepStrictEqual(numbers, [11, 13, 15, 17, 19])
    }))

  it.effect("begins and ends between events, before the first or after the last one", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(20)
      const cases: ReadonlyArray<readonly [number, number | undefined, number]> = [
        [0, 1, 0],
        [0, 2, 1],
        [1, undefined, 20],
        [19.5, undefined, 1],
        [20, 21, 1],
        [20.5, 30, 0],
        [-100, 1_000, 20],
        [5.001, 7.001, 2]
      ]
      const { record } = yield* Deliveries
      for (const [from, to, events] of cases) {
        const replay = yield* begin(integratorId, at(from), to === undefined ? undefined : at(to))
        assert.deepStrictEqual([replay.events, replay.state], [events, events === 0 ? "done" : "running"])
        if (events === 0) continue
        const { lease, numbers, replay: { round } } = yield* readReplay(integratorId)
        assert.lengthOf(numbers, events)
        const none = { attempts: [], retries: [], isRepeated: false }
        const ended = { ...lease, ...none, revision: 1, replay: { round, cursor: null } }
        yield* record([ended], yield* Clock.currentTimeMillis)
        yield* releaseOf(lease)
      }
    }))

  it.effect("is the endpoint's only one until it is done, and ends with the endpoint", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(3)
      const { findReplay } = yield* DeliveryLog
      const endpoints = yield* WebhookEndpoints
      const attempts = yield* Effect.all([begin(integratorId, at(1)), begin(integratorId, at(2))].map(Effect.result), {
        concurrency: 2
      })
      const [started] = attempts.filter(Result.isSuccess)
      const [refused] = attempts.filter(Result.isFailure)
      assert.strictEqual(refused?.failure._tag, "ReplayRunning")
      assert.propertyVal(refused?.failure, "replayId", started?.success.id)
      yield* endpoints.remove(integratorId, id)
      assert.strictEqual((yield* Effect.flip(begin(integratorId, at(1))))._tag, "NotFound")
      const { purge } = yield* Deliveries
      yield* Effect.repeat(Effect.flatMap(Clock.currentTimeMillis, purge), { while: (hasPurged) => hasPurged })
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`SELECT round FROM replays WHERE integrator_id = ${integratorId}`, [])
      yield* endpoints.create(integratorId, { id, url: "http://127.0.0.1:9/" })
      assert.strictEqual((yield* Effect.flip(findReplay(integratorId, id, "rpl_2")))._tag, "NotFound")
      assert.strictEqual((yield* begin(integratorId, at(1))).id, "rpl_3")
    }))

  it.effect("refuses an end that is not after its beginning, and what is no id of a replay", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(3)
      const { findReplay } = yield* DeliveryLog
      const refused = yield* Effect.flip(begin(integratorId, at(2), at(2)))
      assert.strictEqual(refused._tag, "InvalidRequest")
      yield* begin(integratorId, at(1))
      assert.strictEqual((yield* Effect.flip(begin(integratorId, at(2), at(1))))._tag, "InvalidRequest")
      for (const unknown of ["rpl_1", "rpl_02", "2", "rpl_99999999999"]) {
        assert.strictEqual((yield* Effect.flip(findReplay(integratorId, id, unknown)))._tag, "NotFound", unknown)
      }
    }))

  it.effect("goes on behind what an earlier holder delivered, and leaves out what is pending", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(6)
      const { redeliver } = yield* DeliveryLog
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE events SET event_id = 'evt_0123456789abcdef' || lpad(to_hex(event), 12, '0')
        WHERE integrator_id = ${integratorId}`
      yield* begin(integratorId, at(1))
      yield* redeliver(integratorId, id, "evt_0123456789abcdef000000000006")
      const { lease, replay, numbers } = yield* readReplay(integratorId)
      assert.deepStrictEqual(numbers, [1, 2, 3, 4, 5])
      // the first is still in flight when its holder is killed
      const delivered = replay.events.filter(({ event }) => event === 2n || event === 3n)
      const unmoved = { cursor: lease.cursor, retries: [], replay: { round: replay.round, cursor: 0n } }
      yield* recordOf(lease, delivered, 200, unmoved)
      assert.deepStrictEqual((yield* readReplay(integratorId, 31_000)).numbers, [1, 4, 5])
    }))

  it.effect("is work of an endpoint that is given up, and no longer once it is done", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(2)
      yield* begin(integratorId, at(1))
      const { lease } = yield* readReplay(integratorId)
      yield* releaseOf(lease)
      const { lease: second, replay } = yield* readReplay(integratorId)
      const done = { cursor: second.cursor, retries: [], replay: { round: replay.round, cursor: null } }
      yield* recordOf(second, replay.events, 200, done)
      yield* releaseOf(second)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql`SELECT work_at, replay, replay_cursor,
        (SELECT count(*)::int4 FROM retries r WHERE r.integrator_id = e.integrator_id) AS retries
        FROM webhook_endpoints e WHERE integrator_id = ${integratorId}`
      assert.deepStrictEqual(rows, [{ workAt: null, replay: null, replayCursor: null, retries: 0 }])
      const { findReplay } = yield* DeliveryLog
      assert.strictEqual((yield* findReplay(integratorId, id, "rpl_2")).state, "done")
    }))

  it.effect("shows an attempt that succeeded at once with the event's first delivery", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(0)
      const { list, ping } = yield* DeliveryLog
      yield* ping(integratorId, id)
      const lease = yield* leaseOf(integratorId)
      yield* recordOf(lease, (yield* readOf(lease)).events, 200)
      yield* releaseOf(lease)
      yield* begin(integratorId, instant(0))
      const { lease: second, replay } = yield* readReplay(integratorId)
      const done = { cursor: 1n, retries: [], replay: { round: replay.round, cursor: null } }
      yield* recordOf(second, replay.events, 202, done)
      const { deliveries } = yield* list(integratorId, id, { limit: 10, cursor: undefined })
      assert.deepStrictEqual(deliveries.map(({ attempts }) => attempts.map(({ status }) => status)), [[200, 202]])
    }))

  it.effect("of no events wakes nobody, and an endpoint with nothing to send is idle whatever its breaker", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(1)
      const { release } = yield* Deliveries
      const sql = yield* SqlClient.SqlClient
      const workAt = sql`SELECT work_at FROM webhook_endpoints WHERE integrator_id = ${integratorId}`
      yield* begin(integratorId, at(2))
      assert.deepStrictEqual(yield* workAt, [{ workAt: null }])
      yield* sql`UPDATE webhook_endpoints SET work_at = now() - interval '1 s' WHERE integrator_id = ${integratorId}`
      const lease = yield* leaseOf(integratorId)
      const now = yield* Clock.currentTimeMillis
      yield* release([{ ...lease, notBefore: now + 5_000 }], now)
      assert.deepStrictEqual(yield* workAt, [{ workAt: null }])
    }))

  it.effect("can be read while it is one of the newest 100", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp(0)
      const { findReplay } = yield* DeliveryLog
      for (let round = 2; round <= 102; round++) yield* begin(integratorId, at(1))
      assert.strictEqual((yield* Effect.flip(findReplay(integratorId, id, "rpl_2")))._tag, "NotFound")
      assert.strictEqual((yield* findReplay(integratorId, id, "rpl_3")).events, 0)
    }))
})
