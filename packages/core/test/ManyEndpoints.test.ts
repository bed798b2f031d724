import { value } from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
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
const others = 1_000

layer(services, { excludeTestServices: true })("beside many endpoints", (it) => {
  it.effect("each step with one of them reads few rows, and no more than there are where all others are new", () =>
    Effect.gen(function*() {
      // of all in order of their names, so that a scan of an index ends behind all others
      const integratorId = IntegratorId.make("the-last-one")
      const sql = yield* SqlClient.SqlClient
      const { ping } = yield* DeliveryLog
      const { poll, renew } = yield* Deliveries
      yield* (yield* Integrators).create(integratorId)
      yield* (yield* WebhookEndpoints).create(integratorId, { id: hook, url: "http://127.0.0.1:9/" })
      /** Delivers one event at once and another one at its second attempt. Returns the most rows that a step reads. */
      const mostRows = Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        yield* Effect.repeat(ping(integratorId, hook), { times: 1 })
        const [lease, leased] = yield* measured(leaseOf(integratorId))
        const [, polled] = yield* measured(poll([{ ...lease, after: lease.cursor }], now))
        const [{ events }, read] = yield* measured(readOf(lease))
        const [, renewed] = yield* measured(renew([lease], now + 30_000))
        const [, recorded] = yield* measured(recordOf(lease, events.slice(0, 1), 200))
        const [, failed] = yield* measured(recordOf(lease, events.slice(1), 500))
        const cursor = events.at(-1)?.event ?? 0n
        const { retries } = yield* readOf(lease, cursor, 100_000)
        const [, repeated] = yield* measured(recordOf(lease, retries, 200, { cursor }))
        const [, released] = yield* measured(releaseOf(lease))
        assert.deepStrictEqual([events.length, retries.length], [2, 1])
        const steps = [leased, polled, read, renewed, recorded, failed, repeated, released]
        return Math.max(...steps.map(({ rows }) => rows))
      })
      yield* sql`ANALYZE`
      for (let time = 0; time < 7; time++) assert.isAtMost(yield* mostRows, 100)
      const names = sql`SELECT 'other-' || n AS name FROM generate_series(1, ${value.int4(others)}) n`
      yield* sql`INSERT INTO integrators (integrator_id, created_at, event_salt)
        SELECT name, now(), '0123456789abcdef' FROM (${names}) names`
      yield* sql`INSERT INTO vaults (integrator_id, vault_id) SELECT name, 'sandbox' FROM (${names}) names`
      yield* sql`INSERT INTO webhook_endpoints (integrator_id, generation, endpoint_id, url, revision, first_revision,
          created_at, start, cursor)
        SELECT name, 1, 'hook', 'http://127.0.0.1:9/', 1, 1, now(), 0, 0 FROM (${names}) names`
      yield* sql`INSERT INTO webhook_secrets (integrator_id, generation, rotation, encrypted)
        SELECT name, 1, 1, '' FROM (${names}) names`
      // with plans of the statistics of one endpoint
      assert.isAtMost(yield* mostRows, 20 * others)
      yield* sql`ANALYZE webhook_endpoints, webhook_secrets, vaults, retries`
      assert.isAtMost(yield* mostRows, 100)
    }))
})
