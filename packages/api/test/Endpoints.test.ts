import { clearing, definition } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"

layer(TestApi.layer(), { excludeTestServices: true })("the endpoints", (it) => {
  const enroll = (userId: string) =>
    Effect.flatMap(TestApi, (api) => api.send("PUT", `/v1/users/${encodeURIComponent(userId)}`, { json: {} }))

  it.effect("health answers 204 without a key", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const answer = yield* api.send("GET", "/health", { key: "" })
      assert.strictEqual(answer.status, 204)
      assert.strictEqual(answer.text, "")
    }))

  it.effect("a user is enrolled, updated, unchanged and read", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const first = yield* api.send("PUT", "/v1/users/u1", { json: { tier: "gold", country: "DE" } })
      assert.strictEqual(first.status, 200)
      assert.strictEqual(first.body["outcome"], "enrolled")
      assert.strictEqual(
        (yield* api.send("PUT", "/v1/users/u1", { json: { tier: "gold", country: "DE" } })).body["outcome"],
        "unchanged"
      )
      assert.strictEqual(
        (yield* api.send("PUT", "/v1/users/u1", { json: { tier: "silver" } })).body["outcome"],
        "updated"
      )
      const read = yield* api.send("GET", "/v1/users/u1")
      assert.strictEqual(read.status, 200)
      assert.include(read.text, `"tier":"silver"`)
      assert.notInclude(read.text, `"country"`)
      const missing = yield* api.send("GET", "/v1/users/nobody")
      assert.strictEqual(missing.status, 404)
      assert.strictEqual(missing.body["_tag"], "NotFound")
      assert.strictEqual(missing.body["resource"], "user")
      assert.strictEqual(missing.body["id"], "nobody")
    }))

  it.effect("referrers are refused as declared", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* enroll("referrer")
      const unknown = yield* api.send("PUT", "/v1/users/r1", { json: { referredBy: "nobody" } })
      assert.strictEqual(unknown.status, 422)
      assert.strictEqual(unknown.body["_tag"], "ReferrerNotEnrolled")
      yield* enroll("r2")
      const conflict = yield* api.send("PUT", "/v1/users/r2", { json: { referredBy: "referrer" } })
      assert.strictEqual(conflict.status, 409)
      assert.strictEqual(conflict.body["_tag"], "ReferrerConflict")
    }))

  it.effect("a balance lists both assets, USDC first, and needs an enrolled user", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* enroll("ann")
      const answer = yield* api.send("GET", "/v1/users/ann/balance")
      assert.strictEqual(answer.status, 200)
      assert.match(answer.text, /"USDC".*"EURe"/)
      assert.strictEqual((yield* api.send("GET", "/v1/users/nobody/balance")).body["_tag"], "NotFound")
    }))

  it.effect("rewards of a user who is not enrolled are an empty list", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const answer = yield* api.send("GET", "/v1/users/nobody/rewards?limit=100")
      assert.strictEqual(answer.status, 200)
      assert.deepStrictEqual(answer.body, { rewards: [] })
      const bad = yield* api.send("GET", "/v1/users/nobody/rewards?cursor=nonsense")
      assert.strictEqual(bad.status, 400)
      assert.strictEqual(bad.body["part"], "query")
    }))

  it.effect("a bad cursor is refused before an endpoint is looked for", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const deliveries = "/v1/webhook-endpoints/nowhere/deliveries"
      assert.strictEqual((yield* api.send("GET", deliveries)).status, 404)
      assert.strictEqual((yield* api.send("GET", `${deliveries}?cursor=nonsense`)).status, 400)
    }))

  it.effect("a spend event is accepted, recognised and refused as declared", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* enroll("ann")
      const post = (changes: Readonly<Record<string, unknown>> = {}) =>
        api.send("POST", "/v1/spend-events", { json: clearing(changes) })
      const accepted = yield* post()
      assert.strictEqual(accepted.status, 202)
      assert.deepStrictEqual(accepted.body, { id: "se:acme:ann:clearing:t1", duplicate: false })
      assert.strictEqual((yield* post()).body["duplicate"], true)
      const conflict = yield* post({ amount: { currency: "USD", amount: "1" } })
      assert.strictEqual(conflict.status, 409)
      assert.strictEqual(conflict.body["_tag"], "SpendEventConflict")
      const future = yield* post({ externalTransactionId: "t2", occurredAt: "2099-01-01T00:00:00Z" })
      assert.strictEqual(future.status, 422)
      assert.strictEqual(future.body["_tag"], "EventInFuture")
      const unknown = yield* post({ userId: "nobody" })
      assert.strictEqual(unknown.status, 422)
      assert.strictEqual(unknown.body["_tag"], "UserNotEnrolled")
      const mismatch = yield* post({ integratorId: "other", occurredAt: "2099-01-01T00:00:00Z", userId: "nobody" })
      assert.strictEqual(mismatch.status, 403)
      assert.strictEqual(mismatch.body["_tag"], "IntegratorMismatch")
    }))

  it.effect("a program is published, repeated, refused, listed and read", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const published = yield* api.send("PUT", "/v1/programs/p1/versions/1", { json: definition() })
      assert.strictEqual(published.status, 200)
      assert.strictEqual(published.body["duplicate"], false)
      assert.strictEqual(
        (yield* api.send("PUT", "/v1/programs/p1/versions/1", { json: definition() })).body["duplicate"],
        true
      )
      const conflict = yield* api.send("PUT", "/v1/programs/p1/versions/1", { json: definition({ baseRate: 1 }) })
      assert.strictEqual(conflict.status, 409)
      assert.strictEqual(conflict.body["_tag"], "ProgramVersionConflict")
      const refused = yield* api.send("PUT", "/v1/programs/p2/versions/1", {
        json: definition({ baseRate: 10_001, holdingPeriodDays: -1, misspelt: 1 })
      })
      assert.strictEqual(refused.status, 422)
      assert.strictEqual(refused.body["_tag"], "ProgramRefused")
      assert.strictEqual(Array.isArray(refused.body["problems"]) && refused.body["problems"].length, 3)
      assert.include(refused.text, "misspelt: is not known")
      assert.include((yield* api.send("GET", "/v1/programs")).text, `"programId":"p1"`)
      const read = yield* api.send("GET", "/v1/programs/p1")
      assert.strictEqual(read.status, 200)
      assert.include(read.text, `"baseRate":100`)
      assert.strictEqual((yield* api.send("GET", "/v1/programs/none")).body["resource"], "program")
    }))

  it.effect("keys are listed, created once, revoked, and the last one stays", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const created = yield* api.send("POST", "/v1/api-keys", { json: { name: "second" } })
      assert.strictEqual(created.status, 201)
      assert.match(String(created.body["secret"]), /^service_sk_sandbox_[0-9a-f]{64}$/)
      const again = yield* api.send("POST", "/v1/api-keys", { json: { name: "second" } })
      assert.strictEqual(again.status, 201)
      assert.strictEqual(again.body["duplicate"], true)
      assert.notProperty(again.body, "secret")
      const key = String(created.body["secret"])
      assert.strictEqual((yield* api.send("GET", "/v1/api-keys", { key })).status, 200)
      const revoked = yield* api.send("DELETE", "/v1/api-keys/second")
      assert.strictEqual(revoked.status, 200)
      assert.include(revoked.text, "revokedAt")
      assert.strictEqual((yield* api.send("DELETE", "/v1/api-keys/none")).body["resource"], "api_key")
      const last = yield* api.send("DELETE", "/v1/api-keys/default")
      assert.strictEqual(last.status, 422)
      assert.strictEqual(last.body["_tag"], "LastActiveKey")
      for (let index = 0; index < 19; index++) {
        yield* api.send("POST", "/v1/api-keys", { json: { name: `k${index}` } })
      }
      const limit = yield* api.send("POST", "/v1/api-keys", { json: { name: "too many" } })
      assert.strictEqual(limit.status, 422)
      assert.strictEqual(limit.body["_tag"], "ApiKeyLimit")
      assert.strictEqual(limit.body["limit"], 20)
    }))

  it.effect("a webhook endpoint is created, read, changed, rotated and removed", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const url = "https://hooks.example.com/a"
      const refused = yield* api.send("POST", "/v1/webhook-endpoints", { json: { id: "e", url: "https://127.0.0.1/" } })
      assert.strictEqual(refused.status, 422)
      assert.strictEqual(refused.body["_tag"], "EndpointUrlRefused")
      const created = yield* api.send("POST", "/v1/webhook-endpoints", { json: { id: "e", url } })
      assert.strictEqual(created.status, 201)
      assert.match(String(created.body["secret"]), /^service_whsec_[0-9a-f]{64}$/)
      assert.strictEqual(
        (yield* api.send("POST", "/v1/webhook-endpoints", { json: { id: "e", url } })).body["duplicate"],
        true
      )
      const conflict = yield* api.send("POST", "/v1/webhook-endpoints", { json: { id: "e", url: `${url}b` } })
      assert.strictEqual(conflict.status, 409)
      const second = yield* api.send("POST", "/v1/webhook-endpoints", { json: { id: "f", url } })
      assert.strictEqual(second.body["_tag"], "WebhookEndpointLimit")
      yield* api.send("POST", "/v1/webhook-endpoints/e/ping")
      const read = yield* api.send("GET", "/v1/webhook-endpoints/e")
      assert.strictEqual(read.status, 200)
      assert.deepStrictEqual(read.body, { endpoint: { ...Object(created.body["endpoint"]), lag: 1 } })
      const listed = yield* api.send("GET", "/v1/webhook-endpoints")
      assert.deepStrictEqual(listed.body, { endpoints: [read.body["endpoint"]] })
      const changed = yield* api.send("PATCH", "/v1/webhook-endpoints/e", { json: { url: `${url}c` } })
      assert.strictEqual(changed.status, 200)
      assert.strictEqual(
        (yield* api.send("PATCH", "/v1/webhook-endpoints/e", { json: { url: "http://x" } })).status,
        422
      )
      const rotated = yield* api.send("POST", "/v1/webhook-endpoints/e/rotate-secret")
      assert.strictEqual(rotated.status, 200)
      assert.include(rotated.text, "previousSecretExpiresAt")
      assert.strictEqual((yield* api.send("DELETE", "/v1/webhook-endpoints/e")).status, 200)
      for (const [method, path, json] of [
        ["GET", "/v1/webhook-endpoints/e", undefined],
        ["DELETE", "/v1/webhook-endpoints/e", undefined],
        ["PATCH", "/v1/webhook-endpoints/e", { url }],
        ["POST", "/v1/webhook-endpoints/e/rotate-secret", undefined]
      ] as const) {
        const gone = yield* api.send(method, path, { json })
        assert.strictEqual(gone.status, 404)
        assert.strictEqual(gone.body["resource"], "webhook_endpoint")
      }
    }))

  it.effect("the sandbox vault takes deposits, withdrawals and claims, and refuses as declared", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* enroll("ann")
      const amount = { asset: "USDC", amount: "100" }
      const post = (path: string, json: unknown) => api.send("POST", `/v1/sandbox/${path}`, { json })
      const deposit = yield* post("deposits", { reference: "d1", amount })
      assert.strictEqual(deposit.status, 200)
      assert.deepStrictEqual(deposit.body, { reference: "d1", vaultId: "sandbox", duplicate: false })
      assert.strictEqual((yield* post("deposits", { reference: "d1", amount })).body["duplicate"], true)
      assert.strictEqual((yield* post("withdrawals", { reference: "d1", amount })).status, 409)
      assert.strictEqual(
        (yield* post("withdrawals", { reference: "w1", amount: { asset: "USDC", amount: "40" } })).status,
        200
      )
      assert.strictEqual((yield* post("withdrawals", { reference: "w2", amount })).body["_tag"], "SimulationRefused")
      assert.strictEqual((yield* post("claims", { reference: "c1", amount, userId: "ann" })).status, 422)
      assert.strictEqual(
        (yield* post("claims", { reference: "c1", amount, userId: "nobody" })).body["_tag"],
        "UserNotEnrolled"
      )
      assert.include((yield* api.send("GET", "/v1/sandbox/vault")).text, `"held":"60"`)
    }))

  it.effect("the sandbox clock is read and moves forward only", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const key = api.otherKey
      assert.strictEqual((yield* api.send("GET", "/v1/sandbox/clock", { key })).status, 200)
      const moved = yield* api.send("PUT", "/v1/sandbox/clock", { key, json: { now: "2090-01-01T00:00:00Z" } })
      assert.strictEqual(moved.status, 200)
      const back = yield* api.send("PUT", "/v1/sandbox/clock", { key, json: { now: "2080-01-01T00:00:00Z" } })
      assert.strictEqual(back.status, 422)
      assert.strictEqual(back.body["_tag"], "ClockCannotGoBack")
      assert.strictEqual(
        (yield* api.send("PUT", "/v1/sandbox/clock", { key, json: { now: "9500-01-01T00:00:00Z" } })).status,
        400
      )
    }))

  it.effect("the interface is described in OpenAPI 3.1, and shown without another host", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const description = yield* api.send("GET", "/openapi.json", { key: "" })
      assert.strictEqual(description.status, 200)
      assert.match(String(description.body["openapi"]), /^3\.1/)
      assert.include(description.text, "/v1/sandbox/vault")
      const docs = yield* api.send("GET", "/docs", { key: "" })
      assert.strictEqual(docs.status, 200)
      assert.include(docs.headers["content-security-policy"], "default-src 'none'")
      assert.notMatch(docs.text, /<(script|link|img)[^>]+(src|href)=/)
    }))
})
