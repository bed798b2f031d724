import { value } from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { purge } from "@card-rewards/core/Deliveries/Purge"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { closedBreaker } from "@card-rewards/domain/Delivery"
import { Unavailable } from "@card-rewards/domain/Errors"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { leaseOf, readOf, recordOf, releaseOf } from "./Consuming.ts"
import { measured } from "./Reads.ts"
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

const services = Layer.merge(DeliveryLog.layer, Deliveries.layer).pipe(
  Layer.provideMerge(awayAtFirst),
  Layer.provideMerge(liveLayer)
)

const id = EndpointId.make("hook")

const setUp = Effect.fnUntraced(function*(name: string) {
  const integratorId = IntegratorId.make(name)
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* WebhookEndpoints).create(integratorId, { id, url: "http://127.0.0.1:9/" })
  return integratorId
})

const ping = (integratorId: IntegratorId) => Effect.flatMap(DeliveryLog, (log) => log.ping(integratorId, id))

layer(services, { excludeTestServices: true })("Deliveries", (it) => {
  it.effect("secrets that could not be read are read again", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("secrets")
      yield* ping(integratorId)
      const lease = yield* leaseOf(integratorId)
      assert.strictEqual((yield* Effect.flip(readOf(lease)))._tag, "Unavailable")
      assert.lengthOf((yield* readOf(lease)).secrets ?? [], 1)
    }))

  it.effect("an endpoint is leased while it has work, and not again before there is more", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("work")
      const { lease, release } = yield* Deliveries
      const leased = Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.map(lease({ worker: "test", now, until: now + 30_000, limit: 9 }), (all) =>
          all.filter((one) => one.integratorId === integratorId).length))
      assert.strictEqual(yield* leased, 0)
      yield* ping(integratorId)
      const first = yield* leaseOf(integratorId)
      assert.strictEqual(yield* leased, 0)
      // what is stored meanwhile is the holder's, which has not read it
      yield* ping(integratorId)
      yield* recordOf(first, (yield* readOf(first)).events.slice(0, 1), 200)
      yield* releaseOf(first)
      const second = yield* leaseOf(integratorId)
      assert.deepStrictEqual([second.cursor, second.token, second.ahead], [1n, first.token + 1n, 1n])
      yield* recordOf(second, (yield* readOf(second)).events, 500)
      // it is leased again when its retry is due
      yield* releaseOf(second)
      assert.strictEqual(yield* leased, 0)
      const third = yield* leaseOf(integratorId, 61_000)
      yield* recordOf(third, (yield* readOf(third, 2n, 61_000)).retries, 200, { cursor: 2n })
      yield* releaseOf(third)
      assert.strictEqual(yield* leased, 0)
      // an old token gives nothing up
      yield* ping(integratorId)
      const fourth = yield* leaseOf(integratorId)
      yield* release([third], 0)
      assert.strictEqual(yield* leased, 0)
      yield* recordOf(fourth, (yield* readOf(fourth)).events, 200)
      yield* releaseOf(fourth)
    }))

  it.effect("who stores an event while an endpoint is given up has it leased again", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("race")
      const sql = yield* SqlClient.SqlClient
      yield* ping(integratorId)
      const lease = yield* leaseOf(integratorId)
      yield* recordOf(lease, (yield* readOf(lease)).events, 200)
      const stored = yield* Deferred.make<void>()
      const released = yield* Deferred.make<void>()
      const writer = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        // inside this transaction the ping has seen a leased endpoint, and is not committed
        yield* ping(integratorId)
        yield* Deferred.succeed(stored, undefined)
        yield* Deferred.await(released)
      })))
      yield* Deferred.await(stored)
      yield* releaseOf(lease)
      yield* Deferred.succeed(released, undefined)
      yield* Fiber.join(writer)
      const again = yield* leaseOf(integratorId)
      assert.deepStrictEqual((yield* readOf(again)).events.map(({ event }) => event), [2n])
      yield* recordOf(again, (yield* readOf(again)).events, 200)
      yield* releaseOf(again)
    }))

  it.effect("what an earlier holder recorded after the cursor is passed, and a repeated record counts once", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("passed")
      const sql = yield* SqlClient.SqlClient
      yield* Effect.repeat(ping(integratorId), { times: 5 })
      const killed = yield* leaseOf(integratorId)
      const { events } = yield* readOf(killed)
      const [, second, third, , fifth] = events
      if (second === undefined || third === undefined || fifth === undefined) return assert.fail("six events")
      // the first one is still in flight
      yield* recordOf(killed, [second, fifth], 200, { cursor: 0n })
      yield* recordOf(killed, [second, fifth], 200, { cursor: 0n, isRepeated: true })
      yield* recordOf(killed, [third], 500, { cursor: 0n })
      yield* recordOf(killed, [third], 500, { cursor: 0n, isRepeated: true })
      const attempts = yield* sql<{ event: bigint }>`SELECT event FROM delivery_attempts
        WHERE integrator_id = ${integratorId} ORDER BY event`
      // the times of the repeats differ, as they do not where a process gives the same record again
      assert.deepStrictEqual([...new Set(attempts.map(({ event }) => event))], [2n, 3n, 5n])
      const next = yield* leaseOf(integratorId, 31_000)
      assert.strictEqual(next.ahead, 5n)
      const first = yield* readOf(next)
      assert.deepStrictEqual(first.events.map(({ event }) => event), [1n, 4n])
      const rest = yield* readOf(next, first.events.at(-1)?.event)
      assert.deepStrictEqual([rest.events, rest.readTo], [[], 5n])
      assert.deepStrictEqual((yield* readOf(next, rest.readTo)).events.map(({ event }) => event), [6n])
      yield* recordOf(next, events, 200)
      yield* releaseOf(next)
      yield* sql`DELETE FROM retries WHERE integrator_id = ${integratorId}`
    }))

  it.effect("nobody waits for a locked endpoint: its record and its lease are busy, and the others' are not", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const names = yield* Effect.forEach(["locked", "failing", "sound"], setUp)
      yield* Effect.forEach(names, ping)
      const { lease, record, release, renew } = yield* Deliveries
      const now = yield* Clock.currentTimeMillis
      const leases = (yield* lease({ worker: "test", now, until: now + 30_000, limit: 9 }))
        .filter(({ integratorId }) => names.includes(integratorId))
      assert.lengthOf(leases, 3)
      const recordAll = record(
        leases.map((one) => ({
          ...one,
          cursor: 1n,
          revision: 1,
          breaker: closedBreaker,
          isRepeated: false,
          attempts: [],
          retries: one.integratorId === "failing"
            ? [{
              event: 1n,
              round: 1,
              reward: null,
              state: "open",
              attempts: 1,
              nextAttemptAt: now + 1_000_000,
              createdAt: now,
              traceparent: null
            }]
            : []
        })),
        now
      )
      const holding = yield* Deferred.make<void>()
      const enough = yield* Deferred.make<void>()
      const held = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`SELECT FROM webhook_endpoints WHERE integrator_id = 'locked' FOR UPDATE`
        yield* Deferred.succeed(holding, undefined)
        yield* Deferred.await(enough)
      })))
      yield* Deferred.await(holding)
      assert.deepStrictEqual(yield* recordAll, { stored: new Set(["failing", "sound"]), busy: new Set(["locked"]) })
      const renewAll = renew(leases, now + 60_000)
      assert.deepStrictEqual(yield* renewAll, { renewed: new Set(["failing", "sound"]), busy: new Set(["locked"]) })
      const ends = yield* sql<{ integratorId: string; workAt: number }>`SELECT integrator_id, work_at
        FROM webhook_endpoints WHERE integrator_id IN ('locked', 'sound') ORDER BY integrator_id`
      assert.deepStrictEqual(ends.map(({ workAt }) => workAt - now), [30_000, 60_000])
      const twoOf = leases.filter(({ integratorId }) => integratorId !== "failing")
      assert.deepStrictEqual(yield* release(twoOf, now), new Set(["locked"]))
      yield* Deferred.succeed(enough, undefined)
      yield* Fiber.join(held)
      assert.deepStrictEqual(yield* recordAll, { stored: new Set(names), busy: new Set<string>() })
      // one that is given up is not extended
      assert.deepStrictEqual(yield* renewAll, { renewed: new Set(["failing", "locked"]), busy: new Set<string>() })
      assert.deepStrictEqual(yield* release(leases, now), new Set<string>())
    }))

  it.effect("leasing, reading and recording read what is delivered, however much was or waits, whatever is known", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp("busy")
      const sql = yield* SqlClient.SqlClient
      let last = 0
      const store = Effect.fnUntraced(function*(count: number) {
        yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body, reward)
          SELECT ${integratorId}, n, 'evt_' || n, 'reward.pending', now(), now(), '{}', n
          FROM generate_series(${value.int4(last + 1)}, ${value.int4(last + count)}) AS n`
        last += count
        yield* sql`UPDATE vaults SET events = ${value.int4(last)} WHERE integrator_id = ${integratorId}`
        yield* sql`UPDATE webhook_endpoints SET work_at = now() - interval '1 s' WHERE integrator_id = ${integratorId}`
      })
      const pass = (cursor: number) =>
        sql`UPDATE webhook_endpoints SET cursor = ${value.int4(cursor)} WHERE integrator_id = ${integratorId}`
      // what the session has read and not reported yet; nothing is reported in mid-transaction
      const read = Effect.map(
        sql<{ rows: number }>`SELECT sum(seq_tup_read + idx_tup_fetch)::int4 AS rows FROM pg_stat_xact_user_tables
          WHERE relname IN ('events', 'retries', 'webhook_endpoints') OR relname LIKE 'delivery_attempts%'`,
        ([row]) => row?.rows ?? 0
      )
      /** Delivers ten events, five of which fail, and reads the due retries. */
      const rowsRead = sql.withTransaction(Effect.gen(function*() {
        const before = yield* read
        const lease = yield* leaseOf(integratorId)
        const { events } = yield* readOf(lease)
        yield* recordOf(lease, events.slice(0, 5), 200)
        yield* recordOf(lease, events.slice(5, 10), 500)
        const { retries } = yield* readOf(lease, BigInt(last), 100_000)
        yield* recordOf(lease, retries, 200, { cursor: BigInt(last) })
        yield* releaseOf(lease)
        assert.isAtLeast(retries.length, 5)
        return (yield* read) - before
      }))
      yield* store(10)
      assert.isAtMost(yield* rowsRead, 400)
      yield* sql`ANALYZE events, retries, delivery_attempts`
      yield* store(30_000)
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, next_attempt_at,
          revision, created_at)
        SELECT ${integratorId}, 1, n, 1, n, 'open', 1, now() + interval '1 hour', 1, now()
        FROM generate_series(1001, 20000) AS n`
      yield* sql`INSERT INTO delivery_attempts (integrator_id, event, round, attempt, at, duration_millis, status)
        SELECT ${integratorId}, n, 1, 1, now(), 1, 200 FROM generate_series(20001, 30000) AS n`
      yield* pass(last)
      yield* store(10)
      assert.isAtMost(yield* rowsRead, 400)
      yield* sql`ANALYZE events, retries, delivery_attempts`
      yield* pass(last)
      yield* store(10)
      assert.isAtMost(yield* rowsRead, 400)
      // what a deleted endpoint has left of the rewards of the next events
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, revision,
          created_at)
        SELECT ${integratorId}, 0, n, 2, ${value.int4(last)} + 1 + n % 10, 'open', 1, 0, now()
        FROM generate_series(1, 10000) AS n`
      yield* pass(last)
      yield* store(10)
      assert.isAtMost(yield* rowsRead, 400)
      // of a deleted endpoint with nearly all retries of the table, a transaction reads what it removes
      yield* sql`ANALYZE retries`
      yield* sql`UPDATE webhook_endpoints SET deleted_at = now(), worker = NULL, work_at = '-infinity'
        WHERE integrator_id = ${integratorId}`
      const [, { rows }] = yield* measured(purge(yield* Clock.currentTimeMillis))
      assert.isAtMost(rows, 4_100)
    }))
})
