import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { lockEndpoint } from "@card-rewards/core/DeliveryLog/Endpoint"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { closedBreaker } from "@card-rewards/domain/Delivery"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { until } from "@card-rewards/testing/Polling"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Exit, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { leaseOf, readOf, recordOf, releaseOf } from "./Consuming.ts"
import { liveLayer } from "./TestLayer.ts"

const services = Layer.merge(DeliveryLog.layer, Deliveries.layer).pipe(
  Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
  Layer.provideMerge(liveLayer)
)

const id = EndpointId.make("hook")
const url = "http://127.0.0.1:9/"

/** An integrator whose endpoint is leased, with one event. */
const setUp = Effect.fnUntraced(function*(name: string) {
  const integratorId = IntegratorId.make(name)
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* WebhookEndpoints).create(integratorId, { id, url })
  yield* ping(integratorId)
  return { integratorId, lease: yield* leaseOf(integratorId) }
})

const ping = (integratorId: IntegratorId) => Effect.flatMap(DeliveryLog, (log) => log.ping(integratorId, id))

const now = Clock.currentTimeMillis

layer(services, { excludeTestServices: true })("a lease", (it) => {
  it.effect("is ended by no new event, and shortened by no renewal", () =>
    Effect.gen(function*() {
      const { integratorId, lease } = yield* setUp("held")
      const deliveries = yield* Deliveries
      const at = yield* now
      yield* ping(integratorId)
      // the holder's clock was set back
      yield* deliveries.renew([lease], at - 1_000)
      const others = yield* deliveries.lease({ worker: "other", now: at + 1_000, until: at + 31_000, limit: 9 })
      assert.deepStrictEqual(others, [])
    }))

  it.effect("is nobody's where the read that belongs to it fails", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId, lease } = yield* setUp("failed")
      yield* releaseOf(lease)
      yield* sql`ALTER TABLE delivery_attempts RENAME TO unreadable_attempts`
      const failed = yield* Effect.exit(leaseOf(integratorId))
      yield* sql`ALTER TABLE unreadable_attempts RENAME TO delivery_attempts`
      assert.isTrue(Exit.isFailure(failed))
      assert.strictEqual((yield* leaseOf(integratorId)).token, lease.token + 1n)
    }))

  it.effect("ends with its endpoint: nothing is read or recorded by it any more, also of the next endpoint", () =>
    Effect.gen(function*() {
      const { integratorId, lease } = yield* setUp("deleted")
      const { events } = yield* readOf(lease)
      const { create, remove } = yield* WebhookEndpoints
      const deliveries = yield* Deliveries
      const assertLost = Effect.gen(function*() {
        const request = { ...lease, after: 0n, events: 48, retries: 24, maxBytes: 1_000_000 }
        const polled = yield* deliveries.poll([{ ...lease, after: 1_000n }], yield* now)
        assert.deepStrictEqual(polled, new Set([integratorId]))
        assert.deepStrictEqual(yield* deliveries.read([request], yield* now), [])
        const recorded = yield* recordOf(lease, events, 500)
        assert.deepStrictEqual(recorded, { stored: new Set<string>(), busy: new Set<string>() })
        yield* deliveries.renew([lease], (yield* now) + 90_000)
        yield* deliveries.release([lease], yield* now)
      })
      yield* remove(integratorId, id)
      yield* assertLost
      yield* create(integratorId, { id, url })
      yield* ping(integratorId)
      const next = yield* leaseOf(integratorId)
      assert.strictEqual(next.token, lease.token)
      yield* assertLost
      assert.lengthOf((yield* readOf(next)).events, 1)
      const takenAfter = Effect.fnUntraced(function*(millis: number) {
        const at = (yield* now) + millis
        const taken = yield* deliveries.lease({ worker: "other", now: at, until: at + 30_000, limit: 9 })
        return taken.map((one) => one.integratorId)
      })
      assert.notInclude(yield* takenAfter(1_000), integratorId)
      assert.include(yield* takenAfter(31_000), integratorId)
    }))

  it.effect("has an endpoint tried at once at its new URL, whatever became of attempts at the earlier one", () =>
    Effect.gen(function*() {
      const { integratorId, lease } = yield* setUp("moved")
      const probeAt = (yield* now) + 90_000
      const open = { failures: 10, probeAt }
      const { events } = yield* readOf(lease)
      yield* recordOf(lease, events, 500, { breaker: open })
      yield* releaseOf(lease)
      yield* (yield* WebhookEndpoints).update(integratorId, id, `${url}new`)
      const again = yield* leaseOf(integratorId)
      assert.deepStrictEqual(again.breaker, closedBreaker)
      // an attempt at the earlier URL that ends now
      yield* recordOf(again, [], 500, { cursor: 1n, breaker: open })
      assert.deepStrictEqual((yield* readOf(again)).breaker, closedBreaker)
      yield* recordOf(again, [], 500, { cursor: 1n, breaker: open, revision: 2 })
      assert.deepStrictEqual((yield* readOf(again)).breaker, open)
    }))

  it.effect("records nothing while a delivery of its endpoint is being repeated, and is not lost by that", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId, lease } = yield* setUp("repeated")
      const { events } = yield* readOf(lease)
      const services = yield* Effect.context<Deliveries>()
      const record = Effect.promise(() => Effect.runPromiseWith(services)(recordOf(lease, events, 500)))
      const meanwhile = yield* sql.withTransaction(Effect.andThen(lockEndpoint(integratorId, id), record))
      assert.deepStrictEqual(meanwhile, { stored: new Set<string>(), busy: new Set([integratorId]) })
      assert.deepStrictEqual((yield* recordOf(lease, events, 500)).stored, new Set([integratorId]))
    }))

  it.effect("holds back a reward's retries behind an event that is sent anew and fails, until that is delivered", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId, lease } = yield* setUp("held-back")
      yield* ping(integratorId)
      yield* sql`UPDATE events SET reward = 1 WHERE integrator_id = ${integratorId}`
      const [first, second] = (yield* readOf(lease)).events
      if (first === undefined || second === undefined) return assert.fail("two events")
      yield* recordOf(lease, [first], 200)
      yield* recordOf(lease, [second], 500)
      const open = sql<{ event: number; isTimed: boolean }>`SELECT event::int, next_attempt_at IS NOT NULL AS is_timed
        FROM retries WHERE integrator_id = ${integratorId} AND state = 'open' ORDER BY event`
      const timed = Effect.map(open, (rows) => rows.map(({ event, isTimed }) => [event, isTimed]))
      assert.deepStrictEqual(yield* timed, [[2, true]])
      yield* recordOf(lease, [{ ...first, round: 2 }], 500, { cursor: 2n })
      assert.deepStrictEqual(yield* timed, [[1, true], [2, false]])
      yield* recordOf(lease, [{ ...first, round: 2, attempts: 1 }], 200, { cursor: 2n })
      assert.deepStrictEqual(yield* timed, [[2, true]])
    }))

  it.effect("records nothing that another worker takes after the record's statement has begun", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId, lease } = yield* setUp("taken")
      const { events } = yield* readOf(lease)
      // statements that ask who owns a slot wait for a lock, with the snapshot that they have
      yield* sql`ALTER TABLE cell_slots RENAME TO real_slots`
      yield* sql`CREATE VIEW cell_slots AS
        SELECT s.* FROM real_slots s, (SELECT pg_advisory_xact_lock_shared(7) OFFSET 0) AS lock`
      const [isLocked, take] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const taking = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`SELECT pg_advisory_xact_lock(7)`
        yield* Deferred.succeed(isLocked, undefined)
        yield* Deferred.await(take)
        yield* sql`UPDATE webhook_endpoints SET token = token + 1 WHERE integrator_id = ${integratorId}`
      })))
      yield* Deferred.await(isLocked)
      const recording = yield* Effect.forkChild(recordOf(lease, events, 200))
      const waiting = sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`
      yield* until("a session that waits", waiting, ({ length }) => length > 0)
      yield* Deferred.succeed(take, undefined)
      yield* Fiber.join(taking)
      assert.deepStrictEqual((yield* Fiber.join(recording)).stored, new Set())
      const [endpoint] = yield* sql`SELECT cursor::int FROM webhook_endpoints WHERE integrator_id = ${integratorId}`
      assert.deepStrictEqual(endpoint, { cursor: 0 })
      yield* sql`DROP VIEW cell_slots`
      yield* sql`ALTER TABLE real_slots RENAME TO cell_slots`
    }))
})
