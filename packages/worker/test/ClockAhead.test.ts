import { Deliveries } from "@card-rewards/core/Deliveries"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { AdjustableClock } from "@card-rewards/testing/AdjustableClock"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { endpoint, events, services } from "./Dispatching.ts"

const hourMillis = 3_600_000

it.live("a worker whose clock is ahead and that is stopped leaves work that another worker leases at once", () =>
  Effect.gen(function*() {
    const { lease, release } = yield* Deliveries
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    yield* events("acme", 1)
    const now = Date.now()
    const ahead = now + hourMillis
    const leased = yield* lease({ worker: "ahead", now: ahead, until: ahead + 30_000, limit: 1 })
    assert.lengthOf(leased, 1)
    yield* release(leased, ahead)
    assert.lengthOf(yield* lease({ worker: "other", now: Date.now() + 1_000, until: now + 60_000, limit: 1 }), 1)
  }).pipe(Effect.scoped, Effect.provide(services())))

it.live("a URL that a process changes whose clock is ahead gets what waits at once", () =>
  Effect.gen(function*() {
    const { lease, release } = yield* Deliveries
    yield* endpoint("acme", "http://127.0.0.1:9/hook")
    yield* events("acme", 1)
    const now = Date.now()
    const leased = yield* lease({ worker: "first", now: now + 1_000, until: now + 30_000, limit: 1 })
    assert.lengthOf(leased, 1)
    yield* release(leased.map((one) => ({ ...one, notBefore: now + hourMillis })), now)
    yield* (yield* AdjustableClock).pass("30 minutes")
    const { update } = yield* WebhookEndpoints
    yield* update(IntegratorId.make("acme"), EndpointId.make("hook"), "http://127.0.0.1:9/other")
    assert.lengthOf(yield* lease({ worker: "other", now: Date.now() + 1_000, until: now + 60_000, limit: 1 }), 1)
  }).pipe(Effect.scoped, Effect.provide(services().pipe(Layer.provideMerge(AdjustableClock.layer)))))
