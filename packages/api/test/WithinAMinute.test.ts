import { Integrators } from "@card-rewards/core/Integrators"
import { AdjustableClock } from "@card-rewards/testing/AdjustableClock"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { clearing } from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"

const options = { excludeTestServices: true } as const
const accepted = { status: 200 }
const refused = { status: 401, body: { _tag: "Unauthorized", message: "The x-api-key header holds no valid API key" } }
const suspended = { status: 403, body: { _tag: "IntegratorSuspended", message: "The integrator is suspended" } }

const ask = (key: string) => Effect.flatMap(TestApi, (api) => api.send("GET", "/v1/programs", { key }))

/**
 * The answer once the key has been checked anew. A request waits 400 ms for that; then the cached key is used, and the
 * check goes on. A first answer that comes sooner is final: there was no check, or it has ended.
 */
const askAnew = Effect.fnUntraced(function*(key: string, status: number) {
  const [took, first] = yield* Effect.timed(ask(key))
  if (first.status === status || Duration.toMillis(took) < 350) return first
  return yield* ask(key).pipe(
    Effect.delay("250 millis"),
    Effect.repeat({ until: (answer) => answer.status === status, times: 40 })
  )
})

const createKey = Effect.fnUntraced(function*(key: string, name: string) {
  const created = yield* (yield* TestApi).send("POST", "/v1/api-keys", { key, json: { name } })
  assert.strictEqual(created.status, 201, created.text)
  return String(created.body["secret"])
})

layer(TestApi.layer().pipe(Layer.provideMerge(AdjustableClock.layer)), options)("within a minute", (it) => {
  it.effect("a new key works at once, and a revoked one stops 30 s after its look-up, however much it is used", () =>
    Effect.gen(function*() {
      const { pass } = yield* AdjustableClock
      const api = yield* TestApi
      const { key } = yield* newIntegrator("revoking")
      const second = yield* createKey(key, "second")
      assert.deepInclude(yield* ask(second), accepted)
      assert.strictEqual((yield* api.send("DELETE", "/v1/api-keys/second", { key })).status, 200)
      for (let seconds = 0; seconds < 30; seconds += 5) {
        yield* ask(second)
        yield* pass("5 seconds")
      }
      assert.deepInclude(yield* askAnew(second, 401), refused)
      assert.deepInclude(yield* ask(second), refused)
      assert.deepInclude(yield* ask(key), accepted)
    }))

  it.effect("a revoked key stops 30 s after its look-up, whenever the machine's time is set back", () =>
    Effect.gen(function*() {
      const { pass, setBack } = yield* AdjustableClock
      const api = yield* TestApi
      const { key } = yield* newIntegrator("set-back")
      const second = yield* createKey(key, "second")
      assert.deepInclude(yield* ask(second), accepted)
      yield* setBack("2 hours")
      assert.strictEqual((yield* api.send("DELETE", "/v1/api-keys/second", { key })).status, 200)
      yield* pass("30 seconds")
      assert.deepInclude(yield* askAnew(second, 401), refused)
      assert.deepInclude(yield* ask(key), accepted)
    }))

  it.effect("a suspension closes the API, and its end opens it, 30 s after the key was last looked up", () =>
    Effect.gen(function*() {
      const { pass } = yield* AdjustableClock
      const integrators = yield* Integrators
      const { integratorId, key } = yield* newIntegrator("suspending")
      assert.deepInclude(yield* ask(key), accepted)
      yield* integrators.suspend(integratorId)
      yield* pass("30 seconds")
      assert.deepInclude(yield* askAnew(key, 403), suspended)
      yield* integrators.resume(integratorId)
      yield* pass("30 seconds")
      assert.deepInclude(yield* askAnew(key, 200), accepted)
    }))
})

const away = TestApi.behindProxy().pipe(Layer.provideMerge(AdjustableClock.layer))

layer(away, options)("while the database is away", (it) => {
  const unavailable = { status: 503, _tag: "Unavailable" }
  const malformed = (key: string) => Effect.flatMap(
    TestApi,
    (api) => api.send("POST", "/v1/spend-events", { key, raw: "{" })
  )
  const spend = Effect.flatMap(TestApi, (api) => api.send("POST", "/v1/spend-events", { json: clearing() }))
  const summary = (answer: { readonly status: number; readonly body: Readonly<Record<string, unknown>> }) => ({
    status: answer.status,
    _tag: answer.body["_tag"]
  })

  it.effect("a key checked 59 minutes ago is accepted, 61 minutes ago not, a revoked one until it is back", () =>
    Effect.gen(function*() {
      const { pass } = yield* AdjustableClock
      const proxy = yield* NetworkProxy
      const api = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      assert.deepInclude(yield* ask(api.key), accepted)
      assert.deepInclude(yield* ask(api.otherKey), accepted)
      yield* sql`UPDATE api_keys SET revoked_at = now() WHERE integrator_id = 'other'`
      yield* proxy.cut
      yield* pass("59 minutes")
      for (const key of [api.key, api.otherKey]) {
        assert.deepStrictEqual(summary(yield* malformed(key)), { status: 400, _tag: "InvalidRequest" })
        assert.deepStrictEqual(summary(yield* ask(key)), unavailable)
      }
      assert.deepStrictEqual(summary(yield* spend), unavailable)
      yield* pass("2 minutes")
      for (const sent of [malformed(api.key), ask(api.key), spend]) {
        const answer = yield* sent
        assert.deepStrictEqual(summary(answer), unavailable)
        assert.match(answer.headers["retry-after"] ?? "", /^[1-9]/)
      }
      yield* proxy.restore
      const healed = yield* ask(api.key).pipe(
        Effect.delay("250 millis"),
        Effect.repeat({ until: ({ status }) => status === 200, times: 40 })
      )
      assert.deepInclude(healed, accepted)
      assert.deepInclude(yield* ask(api.otherKey), refused)
    }))
})
