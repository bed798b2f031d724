import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { AdjustableClock } from "@card-rewards/testing/AdjustableClock"
import type { Answer, Sent } from "@card-rewards/testing/HttpExchange"
import { clearing } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type Limits, RateLimit } from "../src/Pipeline/RateLimit.ts"

const off: Limits = { ingest: "off", read: "off", manage: "off", auth: "off" }
const acme = IntegratorId.make("acme")

describe("RateLimit", () => {
  const withLimits = <A>(limits: Partial<Limits>, taking: (limits: RateLimit["Service"]) => A) =>
    Effect.map(RateLimit, taking).pipe(Effect.provide(RateLimit.layer({ ...off, ...limits })))

  it.effect("the first of 1000/s with a burst of 2000 leaves 999, as in the decisions", () =>
    withLimits({ ingest: { perSecond: 1_000, burst: 2_000 } }, (limits) =>
      assert.deepStrictEqual(limits.take("ingest", acme, 0), {
        allowed: true,
        retryAfterSeconds: 1,
        headers: { "ratelimit-policy": `"ingest";q=1000;w=1`, ratelimit: `"ingest";r=999;t=1` }
      })))

  it.effect("promises what is left of the policy's quota: never more than is there, and all of it after t", () =>
    withLimits({ read: { perSecond: 3, burst: 5 } }, (limits) => {
      const left = (now: number) => {
        const { allowed, headers } = limits.take("read", acme, now)
        return [allowed, headers?.["ratelimit"]]
      }
      assert.deepStrictEqual(Array.from({ length: 7 }, () => left(0)), [
        ...[2, 2, 2, 1, 0].map((r) => [true, `"read";r=${r};t=1`]),
        ...[0, 0].map((r) => [false, `"read";r=${r};t=1`])
      ])
      assert.deepStrictEqual(Array.from({ length: 4 }, () => left(1_000)), [
        ...[2, 1, 0].map((r) => [true, `"read";r=${r};t=1`]),
        [false, `"read";r=0;t=1`]
      ])
    }))

  it.effect("a peek takes no token, and where the limit is off there are no headers", () =>
    withLimits({ manage: { perSecond: 2, burst: 2 } }, (limits) => {
      limits.peek("manage", acme, 0)
      const { headers } = limits.peek("manage", acme, 0)
      assert.strictEqual(headers?.["ratelimit"], `"manage";r=2;t=1`)
      assert.isUndefined(limits.take("read", acme, 0).headers)
    }))
})

const plenty = { perSecond: 1_000, burst: 2_000 }
const few = { ingest: plenty, read: plenty, manage: plenty, auth: { perSecond: 1, burst: 2 } }
const options = { excludeTestServices: true } as const

const limited = (limits: Partial<Limits>) => TestApi.layer({ limits }).pipe(Layer.provideMerge(AdjustableClock.layer))

layer(limited(few), options)("the headers of limits", (it) => {
  const classOf = (method: string, path: string) =>
    method === "GET" ? "read" : path === "/v1/spend-events" ? "ingest" : "manage"
  const hasLimits = (answer: Answer, name: string) => {
    assert.strictEqual(answer.headers?.["ratelimit-policy"], `"${name}";q=1000;w=1`, answer.text)
    assert.match(answer.headers?.["ratelimit"] ?? "", new RegExp(`^"${name}";r=[1-9][0-9]*;t=1$`), answer.text)
  }

  it.effect("are on every authenticated answer, whatever it is", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const requests: ReadonlyArray<readonly [status: number, method: string, path: string, json?: unknown]> = [
        [200, "PUT", "/v1/users/ann", {}],
        [200, "GET", "/v1/users/ann"],
        [202, "POST", "/v1/spend-events", clearing()],
        [201, "POST", "/v1/api-keys", { name: "k" }],
        [400, "POST", "/v1/spend-events", {}],
        [400, "GET", "/v1/users/%zz"],
        [403, "POST", "/v1/spend-events", clearing({ integratorId: "other" })],
        [404, "GET", "/v1/programs/none"],
        [409, "POST", "/v1/spend-events", clearing({ occurredAt: "2026-01-02T00:00:00Z" })],
        [422, "POST", "/v1/spend-events", clearing({ userId: "nobody" })]
      ]
      for (const [status, method, path, json] of requests) {
        const answer = yield* api.send(method, path, { json })
        assert.strictEqual(answer.status, status, answer.text)
        hasLimits(answer, classOf(method, path))
      }
      yield* sql`ALTER TABLE users RENAME COLUMN tier TO tier_away`
      const fault = yield* api.send("GET", "/v1/users/ann")
      yield* sql`ALTER TABLE users RENAME COLUMN tier_away TO tier`
      assert.strictEqual(fault.status, 500)
      hasLimits(fault, "read")
      const integrators = yield* Integrators
      const suspended = yield* integrators.create(IntegratorId.make("suspended"))
      yield* integrators.suspend(IntegratorId.make("suspended"))
      const closed = yield* api.send("GET", "/v1/programs", { key: Redacted.value(suspended.apiKey) })
      assert.strictEqual(closed.status, 403)
      hasLimits(closed, "read")
      assert.strictEqual(closed.headers["ratelimit"], `"read";r=1000;t=1`, "it takes no token")
    }))

  it.effect("are on no other answer; failed authentications are limited by address, with Retry-After", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const { pass } = yield* AdjustableClock
      const without = (answer: Answer) => {
        assert.notProperty(answer.headers, "ratelimit")
        assert.notProperty(answer.headers, "ratelimit-policy")
        return answer
      }
      const fail = (sent: Sent) => Effect.map(api.send("GET", "/v1/programs", sent), without)
      without(yield* api.send("GET", "/health", { key: "" }))
      without(yield* api.send("GET", "/v1/nothing"))
      const answers = yield* Effect.all(
        Array.from({ length: 10 }, (_, index) => fail({ key: index % 2 === 0 ? "" : "no key" })),
        { concurrency: 10 }
      )
      assert.includeMembers(answers.map(({ status }) => status), [401, 429])
      for (const limited of answers.filter(({ status }) => status === 429)) {
        assert.deepStrictEqual(
          limited.body,
          { _tag: "RateLimited", message: "Too many requests; come again in 1 s", retryAfterSeconds: 1 }
        )
        assert.strictEqual(limited.headers["retry-after"], "1")
      }
      for (
        const refused of answers.filter(({ status }) => status === 401)
      ) assert.notProperty(refused.headers, "retry-after")
      assert.strictEqual((yield* api.send("GET", "/v1/programs")).status, 200)
      yield* pass("1 second")
      assert.strictEqual((yield* fail({ key: "" })).status, 401)
    }))
})

layer(limited({ ingest: { perSecond: 1, burst: 1 } }), options)("beyond the limit", (it) => {
  it.effect("a client that waits for Retry-After is accepted, and another integrator meanwhile", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const { pass } = yield* AdjustableClock
      const post = (key: string) => api.send("POST", "/v1/spend-events", { key, json: {} })
      const answers = yield* Effect.all(Array.from({ length: 6 }, () => post(api.key)), { concurrency: 6 })
      const limited = answers.find(({ status }) => status === 429)
      assert.isDefined(limited)
      assert.deepStrictEqual(
        limited?.body,
        { _tag: "RateLimited", message: "Too many requests; come again in 1 s", retryAfterSeconds: 1 }
      )
      assert.strictEqual(limited?.headers?.["ratelimit"], `"ingest";r=0;t=1`)
      assert.strictEqual((yield* post(api.otherKey)).status, 400)
      yield* pass(Number(limited?.headers["retry-after"]) * 1_000)
      assert.strictEqual((yield* post(api.key)).status, 400)
    }))
})
