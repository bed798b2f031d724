import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { Unavailable } from "@card-rewards/domain/Errors"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
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
      const { claim, stillClaimed } = yield* Deliveries
      const now = yield* Clock.currentTimeMillis
      const claims = yield* claim({
        now,
        limit: 1,
        perEndpoint: 1,
        inFlight: new Map(),
        slow: new Set(),
        slowLimit: 1
      })
      assert.lengthOf(claims, 1)
      assert.strictEqual((yield* Effect.flip(stillClaimed(claims, now)))._tag, "Unavailable")
      assert.lengthOf((yield* stillClaimed(claims, now))[0]?.secrets ?? [], 1)
    }))
})
