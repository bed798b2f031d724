import { Deliveries } from "@card-rewards/core/Deliveries"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
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
