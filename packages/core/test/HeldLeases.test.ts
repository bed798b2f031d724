import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { lockEndpoint } from "@card-rewards/core/DeliveryLog/Endpoint"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { closedBreaker } from "@card-rewards/domain/Delivery"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
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

  it.effect("ends with its endpoint: nothing is read or recorded by it any more", () =>
    Effect.gen(function*() {
      const { integratorId, lease } = yield* setUp("deleted")
      const { events } = yield* readOf(lease)
      yield* (yield* WebhookEndpoints).remove(integratorId, id)
      const { read } = yield* Deliveries
      const request = { ...lease, after: 0n, events: 48, retries: 24, maxBytes: 1_000_000 }
      assert.deepStrictEqual(yield* read([request], yield* now), [])
      const recorded = yield* recordOf(lease, events, 500)
      assert.deepStrictEqual(recorded, { stored: new Set<string>(), busy: new Set<string>() })
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
})
