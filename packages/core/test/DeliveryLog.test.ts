import { value } from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { Vault } from "@card-rewards/core/Vault"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { leaseOf, readOf, recordOf, releaseOf } from "./Consuming.ts"
import { liveLayer } from "./TestLayer.ts"

const services = Layer.mergeAll(DeliveryLog.layer, Deliveries.layer, Vault.layer).pipe(
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

/** A page of deliveries, each as its event's number, its state and its statuses. */
const listed = Effect.fnUntraced(function*(integratorId: IntegratorId, state?: "pending" | "delivered" | "exhausted") {
  const { list } = yield* DeliveryLog
  const { deliveries } = yield* list(integratorId, id, { limit: 10, cursor: undefined, state })
  return deliveries.map(({ attempts, eventId, state }) =>
    [Number.parseInt(eventId.slice(-12), 16), state, ...attempts.map(({ status }) => status)].join(" "))
})

layer(services, { excludeTestServices: true })("DeliveryLog", (it) => {
  it.effect("a redelivery asked for twice is one; what failed before is cancelled for it, and shown", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { ping, redeliver } = yield* DeliveryLog
      const event = yield* ping(integratorId, id)
      assert.deepStrictEqual((yield* redeliver(integratorId, id, event)).attempts, [])
      assert.deepStrictEqual(yield* listed(integratorId), ["1 pending"])
      const lease = yield* leaseOf(integratorId)
      yield* recordOf(lease, (yield* readOf(lease)).events, 500)
      assert.deepStrictEqual(yield* listed(integratorId), ["1 pending 500"])
      const [first, second] = yield* Effect.all([
        redeliver(integratorId, id, event),
        redeliver(integratorId, id, event)
      ], { concurrency: 2 })
      assert.deepStrictEqual(first, second)
      assert.deepStrictEqual(yield* listed(integratorId), ["1 pending", "1 cancelled 500"])
      const { retries } = yield* readOf(lease)
      assert.deepStrictEqual(retries.map(({ attempts, round }) => [round, attempts]), [[2, 0]])
      yield* recordOf(lease, retries, 200)
      assert.deepStrictEqual(yield* listed(integratorId), ["1 delivered 200", "1 cancelled 500"])
      yield* redeliver(integratorId, id, event)
      assert.deepStrictEqual(yield* listed(integratorId, "pending"), ["1 pending"])
    }))

  it.effect("an attempt that is in flight while its delivery is replaced changes no state", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { ping, redeliver } = yield* DeliveryLog
      const event = yield* ping(integratorId, id)
      const lease = yield* leaseOf(integratorId)
      yield* recordOf(lease, (yield* readOf(lease)).events, 500)
      const { retries: [failed] } = yield* readOf(lease, 1n, 100_000)
      if (failed === undefined) return assert.fail("no retry is due")
      yield* redeliver(integratorId, id, event)
      yield* recordOf(lease, [failed], 503)
      assert.deepStrictEqual(yield* listed(integratorId), ["1 pending", "1 cancelled 500 503"])
      yield* recordOf(lease, [{ ...failed, attempts: 2 }], 200)
      assert.deepStrictEqual(yield* listed(integratorId), ["1 pending", "1 cancelled 500 503 200"])
    }))

  it.effect("a redelivered event takes its place in the order of its reward", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { ping, redeliver } = yield* DeliveryLog
      const sql = yield* SqlClient.SqlClient
      const events = [yield* ping(integratorId, id), yield* ping(integratorId, id), yield* ping(integratorId, id)]
      // pings belong to no reward; here they stand for events of one
      yield* sql`UPDATE events SET reward = 1 WHERE integrator_id = ${integratorId}`
      const lease = yield* leaseOf(integratorId)
      const { events: [first, second, third] } = yield* readOf(lease)
      if (first === undefined || second === undefined || third === undefined) return assert.fail("three events")
      yield* recordOf(lease, [first], 200)
      yield* recordOf(lease, [second], 500)
      assert.deepStrictEqual((yield* readOf(lease, 2n)).events.map(({ isBlocked }) => isBlocked), [true])
      yield* redeliver(integratorId, id, events[0] ?? "")
      const due = Effect.map(readOf(lease, 2n, 100_000), ({ retries }) => retries)
      assert.deepStrictEqual((yield* due).map(({ event, round }) => [event, round]), [[1n, 2]])
      yield* recordOf(lease, yield* due, 200, { cursor: 2n })
      assert.deepStrictEqual((yield* due).map(({ event, round }) => [event, round]), [[2n, 1]])
      yield* recordOf(lease, yield* due, 200, { cursor: 2n })
      assert.deepStrictEqual(yield* due, [])
      assert.deepStrictEqual((yield* readOf(lease, 2n)).events.map(({ isBlocked }) => isBlocked), [false])
    }))

  it.effect("a redelivery that replaces another one in flight stays due, and first of its reward", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { ping, redeliver } = yield* DeliveryLog
      const sql = yield* SqlClient.SqlClient
      const events = [yield* ping(integratorId, id), yield* ping(integratorId, id)]
      yield* sql`UPDATE events SET reward = 1 WHERE integrator_id = ${integratorId}`
      const lease = yield* leaseOf(integratorId)
      const { events: [first, second] } = yield* readOf(lease)
      if (first === undefined || second === undefined) return assert.fail("two events")
      yield* recordOf(lease, [first], 200)
      yield* recordOf(lease, [second], 500)
      const due = Effect.map(readOf(lease, 2n, 100_000), ({ retries }) => retries)
      yield* redeliver(integratorId, id, events[0] ?? "")
      yield* recordOf(lease, yield* due, 500, { cursor: 2n })
      const inFlight = yield* due
      assert.deepStrictEqual(inFlight.map(({ event, round }) => [event, round]), [[1n, 2]])
      yield* redeliver(integratorId, id, events[0] ?? "")
      yield* recordOf(lease, inFlight, 500, { cursor: 2n })
      assert.deepStrictEqual((yield* due).map(({ event, round }) => [event, round]), [[1n, 3]])
      yield* recordOf(lease, yield* due, 200, { cursor: 2n })
      assert.deepStrictEqual((yield* due).map(({ event, round }) => [event, round]), [[2n, 1]])
    }))

  it.effect("a redelivery wakes an endpoint that nobody holds, but no open breaker", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { ping, redeliver } = yield* DeliveryLog
      const sql = yield* SqlClient.SqlClient
      const event = yield* ping(integratorId, id)
      const lease = yield* leaseOf(integratorId)
      yield* recordOf(lease, (yield* readOf(lease)).events, 200)
      yield* releaseOf(lease)
      const workAt = Effect.map(
        sql<{ at: number | null }>`SELECT work_at AS at FROM webhook_endpoints WHERE integrator_id = ${integratorId}`,
        ([row]) => row?.at ?? null
      )
      assert.isNull(yield* workAt)
      yield* redeliver(integratorId, id, event)
      assert.isAtMost((yield* workAt) ?? Infinity, yield* Clock.currentTimeMillis)
      const again = yield* leaseOf(integratorId)
      const probeAt = (yield* Clock.currentTimeMillis) + 90_000
      yield* recordOf(again, (yield* readOf(again)).retries, 500, { cursor: 1n, breaker: { failures: 10, probeAt } })
      yield* sql`UPDATE retries SET next_attempt_at = now() + interval '12 hours'
        WHERE integrator_id = ${integratorId} AND state = 'open'`
      yield* releaseOf(again)
      assert.isAbove((yield* workAt) ?? 0, probeAt)
      yield* ping(integratorId, id)
      assert.strictEqual(yield* workAt, probeAt)
    }))

  it.effect("a changed URL wakes an endpoint that nobody holds", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const sql = yield* SqlClient.SqlClient
      yield* (yield* DeliveryLog).ping(integratorId, id)
      const lease = yield* leaseOf(integratorId)
      yield* recordOf(lease, (yield* readOf(lease)).events, 500, { cursor: 1n })
      yield* sql`UPDATE retries SET next_attempt_at = now() + interval '12 hours' WHERE integrator_id = ${integratorId}`
      yield* releaseOf(lease)
      yield* (yield* WebhookEndpoints).update(integratorId, id, `${url}b`)
      const [row] = yield* sql<{ at: number }>`SELECT work_at AS at FROM webhook_endpoints
        WHERE integrator_id = ${integratorId}`
      assert.isAtMost(row?.at ?? Infinity, yield* Clock.currentTimeMillis)
      assert.lengthOf((yield* readOf(yield* leaseOf(integratorId), 1n)).retries, 1)
    }))

  it.effect("a deleted endpoint's retries are removed batch by batch; a changed URL's become due", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const { remove, update } = yield* WebhookEndpoints
      const { purge } = yield* Deliveries
      const { ping } = yield* DeliveryLog
      yield* Effect.repeat(ping(integratorId, id), { times: 9 })
      const lease = yield* leaseOf(integratorId)
      yield* recordOf(lease, (yield* readOf(lease)).events, 500)
      assert.lengthOf((yield* readOf(lease, 10n)).retries, 0)
      yield* update(integratorId, id, `${url}b`)
      const { retries, url: changed } = yield* readOf(lease, 10n)
      assert.deepStrictEqual([retries.length, changed], [10, `${url}b`])
      yield* recordOf(lease, retries.slice(0, 1), 500, { cursor: 10n, revision: 2 })
      assert.lengthOf((yield* readOf(lease, 10n)).retries, 9)
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, state, attempts, revision, created_at)
        SELECT ${integratorId}, 1, n, 2, 'open', 0, 1, now() FROM generate_series(1, 2490) AS n`
      yield* remove(integratorId, id)
      const left: Array<number> = []
      while (yield* purge(yield* Clock.currentTimeMillis)) {
        left.push((yield* sql`SELECT FROM retries WHERE integrator_id = ${integratorId}`).length)
      }
      assert.deepStrictEqual(left, [1500, 500, 0])
    }))

  it.effect("the last page costs as much as the first, whatever became of the events before", () =>
    Effect.gen(function*() {
      const integratorId = yield* setUp
      const { list } = yield* DeliveryLog
      const sql = yield* SqlClient.SqlClient
      const count = value.int4(30_000)
      yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
        SELECT ${integratorId}, n, 'evt_' || n, 'webhook.ping', now(), now(), '{}'
        FROM generate_series(1, ${count}) AS n`
      // the middle third failed for good
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, state, attempts, revision, created_at)
        SELECT ${integratorId}, 1, n, 1, 'exhausted', 13, 1, now() FROM generate_series(10001, 20000) AS n`
      yield* sql`UPDATE webhook_endpoints SET cursor = 30000 WHERE integrator_id = ${integratorId}`
      yield* sql`UPDATE vaults SET events = 30000 WHERE integrator_id = ${integratorId}`
      yield* sql`ANALYZE events, retries`
      // what the session has read and not reported yet; nothing is reported in mid-transaction
      const read = Effect.map(
        sql<{ rows: number }>`SELECT sum(seq_tup_read + idx_tup_fetch)::int AS rows FROM pg_stat_xact_user_tables
          WHERE relname IN ('events', 'retries')`,
        ([row]) => row?.rows ?? 0
      )
      const page = (before: number, state?: "exhausted" | "delivered" | "pending") =>
        sql.withTransaction(Effect.gen(function*() {
          const rows = yield* read
          const cursor = `d${before}.${Date.now()}.1.2`
          const { deliveries, next } = yield* list(integratorId, id, { limit: 20, cursor, state })
          return { events: deliveries.length, next, rows: (yield* read) - rows }
        }))
      for (const [before, state] of [[30_001], [500], [20_001, "exhausted"], [10_050, "exhausted"]] as const) {
        const { events, rows } = yield* page(before, state)
        assert.strictEqual(events, 20)
        assert.isAtMost(rows, 200, `${state} before ${before}`)
      }
      assert.strictEqual((yield* page(20_001, "pending")).events, 0)
      // a page of delivered ones that meets none goes on behind those that it visited
      const { events, next, rows } = yield* page(20_001, "delivered")
      assert.deepStrictEqual([events, next?.split(".")[0]], [0, "d18001"])
      assert.isAtMost(rows, 10_000)
      const found: Array<string> = []
      let cursor: string | undefined
      do {
        const page = yield* list(integratorId, id, { limit: 100, cursor, state: "delivered" })
        found.push(...page.deliveries.map(({ eventId }) => eventId))
        cursor = page.next
      } while (cursor !== undefined)
      assert.strictEqual(new Set(found).size, 20_000)
      assert.lengthOf(found, 20_000)
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
