import { value } from "@card-rewards/core/Database"
import { Deliveries, type Leased } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { leaseOf, readOf, recordOf, releaseOf } from "./Consuming.ts"
import { measured, type Reads } from "./Reads.ts"
import { liveSessionLayer } from "./TestLayer.ts"

const services = Layer.merge(DeliveryLog.layer, Deliveries.layer).pipe(
  Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
  Layer.provideMerge(liveSessionLayer)
)

const hook = EndpointId.make("hook")
const many = 10_000
const eventIdOf = (event: number) => `evt_${"0".repeat(16)}${event.toString(16).padStart(12, "0")}`

/** An integrator whose endpoint has passed some events; the last one has no reward, the others are of reward 7. */
const setUp = Effect.fnUntraced(function*(name: string, events: number) {
  const integratorId = IntegratorId.make(name)
  const sql = yield* SqlClient.SqlClient
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* WebhookEndpoints).create(integratorId, { id: hook, url: "http://127.0.0.1:9/" })
  const count = value.int4(events)
  yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body, reward)
    SELECT ${integratorId}, n, 'evt_' || repeat('0', 16) || lpad(to_hex(n), 12, '0'), 'reward.pending', now(), now(),
      '{}', CASE WHEN n < ${count} THEN 7 END
    FROM generate_series(1, ${count}) n`
  yield* sql`UPDATE vaults SET events = ${count} WHERE integrator_id = ${integratorId}`
  yield* sql`UPDATE webhook_endpoints SET cursor = ${count} WHERE integrator_id = ${integratorId}`
  return integratorId
})

/** Lets the endpoint be leased. */
const wake = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE webhook_endpoints SET work_at = now() - interval '1 s' WHERE integrator_id = ${integratorId}`
})

/** A plan may be made at any time: a session forgets all of its plans also when others have changed many tables. */
const plans = [
  ["planned early", (sql: SqlClient.SqlClient) => sql`SELECT`],
  ["planned late", (sql: SqlClient.SqlClient) => sql`DISCARD PLANS`],
  ["analysed", (sql: SqlClient.SqlClient) => sql`ANALYZE events, retries, delivery_attempts`],
  ["planned when analysed", (sql: SqlClient.SqlClient) => sql`DISCARD PLANS`]
] as const

/** Runs `measure` with plans made before and after `grow` filled the tables, and before and after `ANALYZE`. */
const withPlans = Effect.fnUntraced(function*<E, R, E2, R2>(
  grow: (name: string) => Effect.Effect<IntegratorId, E, R>,
  measure: (integratorId: IntegratorId, name: string) => Effect.Effect<void, E2, R2>
) {
  const sql = yield* SqlClient.SqlClient
  for (const [name, prepare] of plans) {
    const integratorId = yield* grow(name)
    yield* prepare(sql)
    yield* measure(integratorId, name)
  }
})

/** Replays ten events, redelivers two of them and lists their deliveries. Returns what each of these reads. */
const replayAndList = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const { list, redeliver } = yield* DeliveryLog
  const { read } = yield* Deliveries
  const last = value.int4(many + 2)
  yield* sql`INSERT INTO replays (integrator_id, round, generation, from_at, to_at, after_event, last_event, events)
    VALUES (${integratorId}, ${last}, 1, now(), now(), 0, 10, 10) ON CONFLICT DO NOTHING`
  yield* sql`UPDATE webhook_endpoints SET round = ${last}, replay = ${last}, replay_cursor = 0
    WHERE integrator_id = ${integratorId}`
  yield* wake(integratorId)
  const lease = yield* leaseOf(integratorId)
  const replay = { round: null, after: null, events: 32 }
  const request = { ...lease, after: lease.cursor, events: 48, retries: 24, maxBytes: 1_000_000, replay }
  const [[reading], replayed] = yield* measured(read([request], yield* Clock.currentTimeMillis))
  const redelivered = yield* Effect.forEach([5, 10], (event) =>
    measured(redeliver(integratorId, hook, eventIdOf(event))))
  yield* sql`DELETE FROM retries WHERE integrator_id = ${integratorId} AND state = 'open'`
  yield* releaseOf(lease)
  return {
    numbers: reading?.replay?.events.map(({ event }) => Number(event)),
    replayed,
    redelivered: redelivered.map(([, reads]) => reads),
    page: yield* measured(list(integratorId, hook, { limit: 100, cursor: undefined })),
    // behind all repeated deliveries
    first: yield* measured(list(integratorId, hook, { limit: 100, cursor: "d11.0.0.0" }))
  }
})

/** Each of two events was delivered so often, each time at the first attempt, but for the first time of event 5. */
const deliverOften = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, revision,
      created_at)
    SELECT ${integratorId}, 1, event, round, reward, 'delivered', 1, 1, now() + round * interval '1 ms'
    FROM events, generate_series(2, ${value.int4(many + 1)}) round
    WHERE integrator_id = ${integratorId} AND event IN (5, 10)`
  yield* sql`INSERT INTO delivery_attempts (integrator_id, event, round, attempt, at, duration_millis, status)
    SELECT integrator_id, event, round, 1, now(), 3, 200 FROM retries WHERE integrator_id = ${integratorId}
    UNION ALL SELECT ${integratorId}, 5, 1, n, now(), 3, 498 + n FROM generate_series(1, 2) n
    UNION ALL SELECT ${integratorId}, n, 1, 1, now(), 3, 200 FROM generate_series(6, 10) n`
})

/** Sends what is due. Returns its event and round, and what its record reads. */
const send = Effect.fnUntraced(function*(lease: Leased, status: number) {
  const { retries } = yield* readOf(lease, lease.cursor, 100_000)
  const [, reads] = yield* measured(recordOf(lease, retries, status, { cursor: lease.cursor }))
  return [retries.map(({ event, round }) => [Number(event), round]), reads] as const
})

/** All events but the first one wait for the second one, whose attempt failed. */
const setUpWaiting = Effect.fnUntraced(function*(name: string, events: number) {
  const sql = yield* SqlClient.SqlClient
  const integratorId = yield* setUp(name, events)
  yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, next_attempt_at,
      revision, created_at)
    SELECT integrator_id, 1, event, 1, 7, 'open', 1, CASE event WHEN 2 THEN now() END, 1, now() FROM events
    WHERE integrator_id = ${integratorId} AND event > 1 AND reward = 7`
  return integratorId
})

/** Redelivers the first event of {@link setUpWaiting}. */
const redeliverFirst = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const { list, redeliver } = yield* DeliveryLog
  yield* wake(integratorId)
  const [, redelivered] = yield* measured(redeliver(integratorId, hook, eventIdOf(1)))
  const lease = yield* leaseOf(integratorId)
  const sent = yield* Effect.forEach([500, 200, 200, 500], (status) => send(lease, status))
  const page = yield* measured(list(integratorId, hook, { limit: 100, cursor: undefined, state: "pending" }))
  yield* releaseOf(lease)
  return { redelivered, sent, page }
})

const suite = (isAnalysed: boolean) =>
  layer(services, { excludeTestServices: true })(isAnalysed ? "analysed early" : "never analysed", (it) => {
    const warmUp = Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (const name of ["warm", "warmer"]) {
        const integratorId = yield* setUp(name, 10)
        if (isAnalysed) yield* sql`ANALYZE events, retries, delivery_attempts, webhook_endpoints`
        yield* replayAndList(integratorId)
        yield* redeliverFirst(yield* setUpWaiting(`${name}-waits`, 10))
      }
    })

    it.effect("however often an event was delivered, a replay, a redelivery and a page read what they need", () =>
      Effect.gen(function*() {
        yield* warmUp
        const integratorId = yield* setUp("often", 10)
        yield* deliverOften(integratorId)
        yield* withPlans(() => Effect.succeed(integratorId), Effect.fnUntraced(function*(_, name) {
          const { first, numbers, page, redelivered, replayed } = yield* replayAndList(integratorId)
          assert.deepStrictEqual(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
          assertFew(name, replayed, 120, 400)
          for (const reads of redelivered) assertFew(name, reads, 100, 300)
          const [{ deliveries }, listed] = page
          assert.lengthOf(deliveries, 100)
          assert.isTrue(deliveries.every(({ attempts }) => attempts.length === 1))
          assertFew(name, listed, 1_000, 3_000)
          const statuses = first[0].deliveries.map(({ attempts }) => attempts.map(({ status }) => status))
          assert.deepStrictEqual(statuses, [...Array(5).fill([200]), [499, 500], ...Array(4).fill([])])
          assertFew(name, first[1], 500, 1_500)
        }))
      }))

    it.effect("however many retries of a reward wait, one that comes before them reads one, a page its own", () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const grow = (name: string) => setUpWaiting(`waits ${name}`.replaceAll(" ", "-"), many + 1)
        yield* withPlans(grow, Effect.fnUntraced(function*(integratorId, name) {
          const { page: [{ deliveries }, listed], redelivered, sent } = yield* redeliverFirst(integratorId)
          assertFew(name, redelivered, 100, 300)
          assert.deepStrictEqual(sent.map(([due]) => due), [[[1, 2]], [[1, 2]], [[2, 1]], [[3, 1]]])
          for (const [, reads] of sent) assertFew(name, reads, 100, 300)
          const times = yield* sql`SELECT event FROM retries
            WHERE integrator_id = ${integratorId} AND next_attempt_at IS NOT NULL`
          assert.deepStrictEqual(times, [{ event: 3n }])
          assert.strictEqual(new Set(deliveries.map(({ nextAttemptAt }) => nextAttemptAt)).size, 1)
          assertFew(name, listed, 1_500, 4_000)
        }))
      }))
  })

const assertFew = (name: string, { pages, rows }: Reads, maxRows: number, maxPages: number) => {
  assert.isAtMost(rows, maxRows, name)
  assert.isAtMost(pages, maxPages, name)
}

suite(false)
suite(true)
