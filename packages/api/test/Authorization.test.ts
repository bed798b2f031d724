import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { clearing } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"

const unknownKey = `service_sk_sandbox_${"0".repeat(64)}`

const limits = {
  ingest: { perSecond: 1, burst: 2 },
  manage: { perSecond: 1_000, burst: 1_000 },
  auth: { perSecond: 1, burst: 30 }
}

layer(TestApi.layer({ limits }), {
  timeout: "60 seconds",
  excludeTestServices: true
})("authorization", (it) => {
  it.effect("a missing, an empty, an unknown and a malformed key are 401 before anything is decoded", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      for (const key of ["", unknownKey, "nonsense", api.key.toUpperCase(), `${api.key}0`, `${api.key}, ${api.key}`]) {
        const answer = yield* api.send(
          "POST",
          "/v1/spend-events",
          { key, raw: "{", headers: { "content-type": "text/plain" } }
        )
        assert.strictEqual(answer.status, 401)
        assert.deepStrictEqual(Object.keys(answer.body).sort(), ["_tag", "message"])
        assert.isUndefined(answer.headers["ratelimit"])
      }
    }))

  it.effect("every authenticated answer shows the limit of its class, and 429 comes before 400", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const post = (json: unknown) => api.send("POST", "/v1/spend-events", { json })
      const first = yield* post({})
      assert.strictEqual(first.status, 400)
      assert.strictEqual(first.headers["ratelimit-policy"], `"ingest";q=1;w=1`)
      assert.match(first.headers["ratelimit"] ?? "", /^"ingest";r=0;t=1$/)
      assert.strictEqual((yield* post(clearing({ integratorId: "other" }))).status, 403)
      const answers = yield* Effect.all(Array.from({ length: 6 }, () => post({})), { concurrency: 6 })
      const limited = answers.find(({ status }) => status === 429)
      assert.strictEqual(limited?.body["_tag"], "RateLimited")
      assert.strictEqual(limited?.body["retryAfterSeconds"], 1)
      assert.strictEqual(limited?.headers["retry-after"], "1")
      assert.match(limited?.headers["ratelimit"] ?? "", /^"ingest";r=0;t=1$/)
      const manage = yield* api.send("PUT", "/v1/users/u", { json: {} })
      assert.strictEqual(manage.headers["ratelimit-policy"], `"manage";q=1000;w=1`)
      const read = yield* api.send("GET", "/v1/users/u")
      assert.isUndefined(read.headers["ratelimit"])
      assert.isUndefined(read.headers["ratelimit-policy"])
      const other = yield* api.send("POST", "/v1/spend-events", { key: api.otherKey, json: {} })
      assert.strictEqual(other.status, 400)
    }))

  it.effect("the use of a key shows to the minute", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const shown = yield* api.send("GET", "/v1/api-keys", { key: api.otherKey }).pipe(
        Effect.delay("200 millis"),
        Effect.repeat({ until: ({ text }) => text.includes("lastUsedAt"), times: 40 })
      )
      assert.match(shown.text, /"lastUsedAt":"[^"]+:00\.000Z"/)
      assert.notInclude(shown.text, api.otherKey)
    }))

  it.effect("failed authentications are limited by address, and hold no valid key back", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const answers = yield* Effect.forEach(
        Array.from({ length: 60 }),
        () => api.send("GET", "/v1/programs", { key: unknownKey }),
        { concurrency: 10 }
      )
      const limited = answers.filter(({ status }) => status === 429)
      assert.isAbove(limited.length, 0)
      assert.isTrue(answers.every(({ status }) => status === 401 || status === 429))
      assert.match(limited[0]?.headers["retry-after"] ?? "", /^[1-9]/)
      assert.strictEqual((yield* api.send("GET", "/v1/programs")).status, 200)
    }))

  it.effect("a suspended integrator is 403 before 429 and 400, as soon as its key is checked anew", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const integrators = yield* Integrators
      const suspended = yield* integrators.create(IntegratorId.make("suspended"))
      yield* integrators.suspend(IntegratorId.make("suspended"))
      for (let index = 0; index < 4; index++) {
        const answer = yield* api.send("POST", "/v1/spend-events", { key: Redacted.value(suspended.apiKey), raw: "{" })
        assert.strictEqual(answer.status, 403)
        assert.strictEqual(answer.body["_tag"], "IntegratorSuspended")
      }
    }))
})
