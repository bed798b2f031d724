import { EndpointId } from "@card-rewards/domain/Ids"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { WebhookEndpoints } from "../src/WebhookEndpoints.ts"
import { newIntegrator, pairRuns, startMillis, testLayer } from "./TestLayer.ts"

const layer = WebhookEndpoints.layer({ allowPrivateNetwork: false }).pipe(Layer.provideMerge(testLayer))
const id = EndpointId.make("main")
const url = "https://hooks.example.com/a"
const dayMillis = 86_400_000

it.layer(layer)("WebhookEndpoints", (it) => {
  it.effect("checks for duplicates and conflicts before the URL, and the URL before the limit", () =>
    Effect.gen(function*() {
      const endpoints = yield* WebhookEndpoints
      const integratorId = yield* newIntegrator
      const other = EndpointId.make("other")
      const { endpoint, secret } = yield* endpoints.create(integratorId, { id, url })
      assert.match(secret ?? "", /^service_whsec_[0-9a-f]{64}$/)
      assert.deepStrictEqual(yield* endpoints.create(integratorId, { id, url }), { endpoint, duplicate: true })
      const tag = (creation: { id: EndpointId; url: string }) =>
        Effect.map(Effect.flip(endpoints.create(integratorId, creation)), (error) => error._tag)
      assert.strictEqual(yield* tag({ id, url: "http://10.0.0.1" }), "WebhookEndpointConflict")
      assert.strictEqual(yield* tag({ id: other, url: "http://10.0.0.1" }), "EndpointUrlRefused")
      assert.strictEqual(yield* tag({ id: other, url }), "WebhookEndpointLimit")
    }))

  it.effect("a deleted id can be created again, as a new endpoint with a new secret", () =>
    Effect.gen(function*() {
      const endpoints = yield* WebhookEndpoints
      const integratorId = yield* newIntegrator
      const first = yield* endpoints.create(integratorId, { id, url })
      assert.deepStrictEqual(yield* endpoints.remove(integratorId, id), first.endpoint)
      assert.deepStrictEqual(yield* endpoints.list(integratorId), [])
      assert.deepStrictEqual<ReadonlyArray<unknown>>(yield* endpoints.signingSecrets(integratorId, 1), [])
      assert.strictEqual((yield* Effect.flip(endpoints.remove(integratorId, id)))._tag, "NotFound")
      const second = yield* endpoints.create(integratorId, { id, url })
      assert.isFalse(second.duplicate)
      assert.deepStrictEqual<ReadonlyArray<unknown>>(yield* endpoints.signingSecrets(integratorId, 2), [second.secret])
    }))

  it.effect("a changed URL keeps the secret; a repeated create is compared with the changed URL", () =>
    Effect.gen(function*() {
      const endpoints = yield* WebhookEndpoints
      const integratorId = yield* newIntegrator
      const { secret } = yield* endpoints.create(integratorId, { id, url })
      assert.strictEqual(
        (yield* Effect.flip(endpoints.update(integratorId, id, "http://x")))._tag,
        "EndpointUrlRefused"
      )
      const changed = yield* endpoints.update(integratorId, id, `${url}b`)
      assert.deepStrictEqual(
        yield* endpoints.create(integratorId, { id, url: `${url}b` }),
        { endpoint: changed, duplicate: true }
      )
      assert.deepStrictEqual<ReadonlyArray<unknown>>(yield* endpoints.signingSecrets(integratorId, 1), [secret])
    }))

  it.effect("a read shows how many events the endpoint has not passed, from those stored after its creation", () =>
    Effect.gen(function*() {
      const { create, get, list, remove } = yield* WebhookEndpoints
      const sql = yield* SqlClient.SqlClient
      const integratorId = yield* newIntegrator
      const store = sql`UPDATE vaults SET events = events + 5 WHERE integrator_id = ${integratorId}`
      const lags = Effect.gen(function*() {
        const [listed] = yield* list(integratorId)
        return [(yield* get(integratorId, id)).lag, listed?.lag]
      })
      yield* store
      const { endpoint } = yield* create(integratorId, { id, url })
      assert.notProperty(endpoint, "lag")
      assert.deepStrictEqual(yield* get(integratorId, id), { ...endpoint, lag: 0 })
      yield* store
      assert.deepStrictEqual(yield* lags, [5, 5])
      yield* sql`UPDATE webhook_endpoints SET cursor = cursor + 3 WHERE integrator_id = ${integratorId}`
      assert.deepStrictEqual(yield* lags, [2, 2])
      yield* remove(integratorId, id)
      yield* create(integratorId, { id, url })
      assert.deepStrictEqual(yield* lags, [0, 0])
    }))

  it.effect("up to four replaced secrets sign for 24 hours, newest first", () =>
    Effect.gen(function*() {
      const endpoints = yield* WebhookEndpoints
      const integratorId = yield* newIntegrator
      const secrets = [(yield* endpoints.create(integratorId, { id, url })).secret]
      for (let rotation = 1; rotation <= 5; rotation++) {
        const { endpoint, secret } = yield* endpoints.rotateSecret(integratorId, id)
        assert.strictEqual(endpoint.previousSecretExpiresAt, startMillis + dayMillis)
        secrets.unshift(secret)
      }
      assert.deepStrictEqual<ReadonlyArray<unknown>>(
        yield* endpoints.signingSecrets(integratorId, 1),
        secrets.slice(0, 5)
      )
      yield* TestClock.adjust(dayMillis)
      assert.deepStrictEqual<ReadonlyArray<unknown>>(
        yield* endpoints.signingSecrets(integratorId, 1),
        secrets.slice(0, 1)
      )
    }))

  it.effect("a rotation waits for a deletion of the endpoint that is not committed, and finds none after it", () =>
    Effect.gen(function*() {
      const endpoints = yield* WebhookEndpoints
      const sql = yield* SqlClient.SqlClient
      const integratorId = yield* newIntegrator
      yield* endpoints.create(integratorId, { id, url })
      const [isDeleted, mayCommit] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const deleting = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* endpoints.remove(integratorId, id)
        yield* Deferred.succeed(isDeleted, undefined)
        yield* Deferred.await(mayCommit)
      })))
      yield* Deferred.await(isDeleted)
      const rotating = yield* Effect.forkChild(endpoints.rotateSecret(integratorId, id))
      const waiting = sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      while ((yield* waiting).length === 0) assert.isUndefined(rotating.pollUnsafe(), "it waits")
      yield* Deferred.succeed(mayCommit, undefined)
      yield* Fiber.join(deleting)
      assert.strictEqual((yield* Effect.flip(Fiber.join(rotating)))._tag, "NotFound")
    }))

  it.effect("one of two concurrent creations makes the endpoint; two concurrent rotations both have an effect", () =>
    Effect.gen(function*() {
      const endpoints = yield* WebhookEndpoints
      for (let run = 0; run < pairRuns; run++) {
        const integratorId = yield* newIntegrator
        const create = endpoints.create(integratorId, { id, url })
        const created = yield* Effect.all([create, create], { concurrency: 2 })
        assert.deepStrictEqual(created.map((one) => one.duplicate).sort(), [false, true])
        const rotate = endpoints.rotateSecret(integratorId, id)
        yield* Effect.all([rotate, rotate], { concurrency: 2 })
        assert.lengthOf(yield* endpoints.signingSecrets(integratorId, 1), 3)
      }
    }))
})
