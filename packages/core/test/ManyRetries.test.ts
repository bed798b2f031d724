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
import { measured } from "./Reads.ts"
import { liveLayer } from "./TestLayer.ts"

const services = Layer.merge(DeliveryLog.layer, Deliveries.layer).pipe(
  Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
  Layer.provideMerge(liveLayer)
)

const hook = EndpointId.make("hook")
const many = 10_000
const eventIdOf = (event: number) => `evt_${"0".repeat(16)}${event.toString(16).padStart(12, "0")}`

/** An integrator whose endpoint has passed ten events; the last one has no reward, the others are of reward 7. */
const setUp = Effect.fnUntraced(function*(name: string, events = 10) {
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

/** Runs `measure` with plans that were made for empty tables, with those of tables as they are, and without any. */
const withPlans = Effect.fnUntraced(function*<E, R>(measure: Effect.Effect<void, E, R>) {
  const sql = yield* SqlClient.SqlClient
  for (const statement of [sql`SELECT`, sql`ANALYZE retries, delivery_attempts`, sql`DISCARD PLANS`]) {
    yield* statement
    yield* measure
  }
})

layer(services, { excludeTestServices: true })("however many", (it) => {
  it.effect("deliveries an event has had, a replay, a redelivery and a page read none but those they need", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("rounds")
      const sql = yield* SqlClient.SqlClient
      const { list, redeliver } = yield* DeliveryLog
      const { read } = yield* Deliveries
      const last = many + 2
      const replay = Effect.gen(function*() {
        yield* sql`UPDATE webhook_endpoints SET replay = ${value.int4(last)}, replay_cursor = 0
          WHERE integrator_id = ${integratorId}`
        yield* wake(integratorId)
        const lease = yield* leaseOf(integratorId)
        const request = { ...lease, after: lease.cursor, events: 48, retries: 24, maxBytes: 1_000_000 }
        const now = yield* Clock.currentTimeMillis
        const [[reading], reads] = yield* measured(
          read([{ ...request, replay: { round: null, after: null, events: 32 } }], now)
        )
        yield* releaseOf(lease)
        return [reading?.replay?.events.map(({ event }) => Number(event)), reads] as const
      })
      const again = (event: number) =>
        Effect.gen(function*() {
          const [, reads] = yield* measured(redeliver(integratorId, hook, eventIdOf(event)))
          yield* sql`DELETE FROM retries WHERE integrator_id = ${integratorId} AND state = 'open'`
          return reads
        })
      const page = measured(list(integratorId, hook, { limit: 100, cursor: undefined }))
      yield* sql`UPDATE webhook_endpoints SET round = ${value.int4(last)} WHERE integrator_id = ${integratorId}`
      yield* sql`INSERT INTO replays (integrator_id, round, generation, from_at, to_at, after_event, last_event, events)
        VALUES (${integratorId}, ${value.int4(last)}, 1, now(), now(), 0, 10, 10)`
      for (let time = 0; time < 7; time++) yield* Effect.all([replay, again(5), again(10), page])
      // all of them succeeded at their first attempt; the first attempt of event 5 failed
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, revision,
          created_at)
        SELECT ${integratorId}, 1, event, round, reward, 'delivered', 1, 1, now() + round * interval '1 ms'
        FROM events, generate_series(2, ${value.int4(many + 1)}) round
        WHERE integrator_id = ${integratorId} AND event IN (5, 10)`
      yield* sql`INSERT INTO delivery_attempts (integrator_id, event, round, attempt, at, duration_millis, status)
        SELECT integrator_id, event, round, 1, now(), 3, 200 FROM retries WHERE integrator_id = ${integratorId}
        UNION ALL SELECT ${integratorId}, 5, 1, n, now(), 3, 498 + n FROM generate_series(1, 2) n
        UNION ALL SELECT ${integratorId}, n, 1, 1, now(), 3, 200 FROM generate_series(6, 10) n`
      yield* withPlans(Effect.gen(function*() {
        const [events, replayed] = yield* replay
        assert.deepStrictEqual(events, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
        assert.isAtMost(replayed.rows, 60)
        assert.isAtMost(replayed.pages, 250)
        for (const event of [5, 10]) {
          const reads = yield* again(event)
          assert.isAtMost(reads.rows, 30)
          assert.isAtMost(reads.pages, 100)
        }
        const [{ deliveries }, listed] = yield* page
        assert.lengthOf(deliveries, 100)
        assert.isTrue(deliveries.every(({ attempts }) => attempts.length === 1))
        assert.isAtMost(listed.rows, 800)
        assert.isAtMost(listed.pages, 2_500)
        // the first deliveries of the ten events, behind all repeated ones
        const [{ deliveries: first }, firstListed] = yield* measured(
          list(integratorId, hook, { limit: 100, cursor: "d11.0.0.0" })
        )
        const statuses = first.map(({ attempts }) => attempts.map(({ status }) => status))
        assert.deepStrictEqual(statuses, [...Array(5).fill([200]), [499, 500], ...Array(4).fill([])])
        assert.isAtMost(firstListed.rows, 300)
        assert.isAtMost(firstListed.pages, 700)
      }))
    }))

  it.effect("retries of a reward wait, a delivery that comes before them reads one, and a page as many as it has", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("waiting", many + 1)
      const sql = yield* SqlClient.SqlClient
      const { list, redeliver } = yield* DeliveryLog
      const page = measured(list(integratorId, hook, { limit: 100, cursor: undefined, state: "pending" }))
      const again = measured(redeliver(integratorId, hook, eventIdOf(1)))
      /** Sends the delivery that is due. Returns its event and round, and what its record read. */
      const send = Effect.fnUntraced(function*(lease: Leased, status: number) {
        const { retries } = yield* readOf(lease, lease.cursor, 100_000)
        const [, reads] = yield* measured(recordOf(lease, retries, status, { cursor: lease.cursor }))
        return [retries.map(({ event, round }) => [Number(event), round]), reads] as const
      })
      const fill = Effect.fnUntraced(function*(count: number) {
        yield* sql`DELETE FROM retries WHERE integrator_id = ${integratorId}`
        yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts,
            next_attempt_at, revision, created_at)
          SELECT ${integratorId}, 1, n, 1, 7, 'open', 1, CASE n WHEN 2 THEN now() END, 1, now()
          FROM generate_series(2, ${value.int4(count)}) n`
        yield* sql`UPDATE webhook_endpoints SET round = 1 WHERE integrator_id = ${integratorId}`
        yield* wake(integratorId)
      })
      for (let time = 0; time < 7; time++) {
        yield* fill(4)
        yield* Effect.all([again, page])
        const lease = yield* leaseOf(integratorId)
        for (const status of [500, 200, 200]) yield* send(lease, status)
        yield* releaseOf(lease)
      }
      yield* withPlans(Effect.gen(function*() {
        yield* fill(many)
        const [, redelivered] = yield* again
        assert.isAtMost(redelivered.rows, 40)
        assert.isAtMost(redelivered.pages, 150)
        const lease = yield* leaseOf(integratorId)
        const sent = [[500, [1, 2]], [200, [1, 2]], [200, [2, 1]], [500, [3, 1]]] as const
        for (const [status, delivery] of sent) {
          const [deliveries, recorded] = yield* send(lease, status)
          assert.deepStrictEqual(deliveries, [[...delivery]])
          assert.isAtMost(recorded.rows, 40)
          assert.isAtMost(recorded.pages, 150)
        }
        const times = yield* sql`SELECT event FROM retries
          WHERE integrator_id = ${integratorId} AND next_attempt_at IS NOT NULL`
        assert.deepStrictEqual(times, [{ event: 3n }])
        const [{ deliveries }, listed] = yield* page
        assert.strictEqual(new Set(deliveries.map(({ nextAttemptAt }) => nextAttemptAt)).size, 1)
        assert.isAtMost(listed.rows, 1_500)
        assert.isAtMost(listed.pages, 4_000)
        yield* releaseOf(lease)
      }))
    }))
})
