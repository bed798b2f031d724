import { Deliveries } from "@card-rewards/core/Deliveries"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { AdjustableClock } from "@card-rewards/testing/AdjustableClock"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { endpoint, events, services } from "./Dispatching.ts"

const hourMillis = 3_600_000

const operations = readFileSync(new URL("../../../docs/operations.md", import.meta.url), "utf8")

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

it.live("after the clock was set back, the statements of docs/operations.md make all webhooks due", () =>
  Effect.gen(function*() {
    const { lease, release } = yield* Deliveries
    const sql = yield* SqlClient.SqlClient
    const row = operations.split("\n").find((line) => line.startsWith("| the clocks of the workers are set back |"))
    const statements = Array.from(row?.matchAll(/`(UPDATE [^`]+)`/g) ?? [], ([, statement = ""]) => statement)
    assert.lengthOf(statements, 3)
    yield* endpoint("killed", "http://127.0.0.1:9/hook")
    yield* endpoint("failing", "http://127.0.0.1:9/hook")
    yield* events("killed", 1)
    yield* events("failing", 2)
    const now = Date.now()
    const ahead = now + hourMillis
    const leased = yield* lease({ worker: "ahead", now: ahead, until: ahead + 30_000, limit: 2 })
    assert.lengthOf(leased, 2)
    const failing = leased.filter(({ integratorId }) => integratorId === "failing")
    yield* sql`INSERT INTO retries (integrator_id, generation, event, round, state, attempts, next_attempt_at, revision,
      created_at) SELECT integrator_id, generation, 1, 1, 'open', 1, now() + interval '1 hour', revision, now()
      FROM webhook_endpoints WHERE integrator_id = 'failing'`
    yield* sql`UPDATE webhook_endpoints SET probe_at = now() + interval '1 hour', failures = 12
      WHERE integrator_id = 'failing'`
    yield* release(failing, now)
    const later = { worker: "other", until: now + 60_000, limit: 9 }
    assert.deepStrictEqual(yield* lease({ ...later, now: Date.now() + 1_000 }), [])
    for (const statement of statements) yield* sql.unsafe(statement)
    const due = yield* lease({ ...later, now: Date.now() + 1_000 })
    const probes = due.map(({ breaker, integratorId }) => [integratorId, (breaker.probeAt ?? 0) <= Date.now()])
    assert.deepStrictEqual(probes.toSorted(), [["failing", true], ["killed", true]])
    const [retry] = yield* sql<{ due: boolean }>`SELECT next_attempt_at <= now() AS due FROM retries`
    assert.isTrue(retry?.due)
  }).pipe(Effect.scoped, Effect.provide(services())))
