import { ApiKey } from "@card-rewards/domain/ApiKey"
import { AdjustableClock } from "@card-rewards/testing/AdjustableClock"
import { createKey } from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"

const Keys = Schema.Struct({ keys: Schema.Array(Schema.toEncoded(ApiKey)) })

/** A new integrator, its requests and its keys. */
const asNew = Effect.fnUntraced(function*(name: string) {
  const { key, send } = yield* newIntegrator(name)
  const list = Effect.flatMap(send("GET", "/v1/api-keys"), ({ body }) => Schema.decodeUnknownEffect(Keys)(body))
  return { key, send, list: Effect.map(list, ({ keys }) => keys) }
})

const api = TestApi.layer().pipe(Layer.provideMerge(AdjustableClock.layer))

layer(api, { excludeTestServices: true })("API keys", (it) => {
  it.effect("20 may be active; a repeat is recognised all the same, and a revocation makes room", () =>
    Effect.gen(function*() {
      const { send } = yield* asNew("active")
      for (let index = 1; index < 20; index++) assert.strictEqual((yield* send(...createKey(`k${index}`))).status, 201)
      const refused = yield* send(...createKey("k20"))
      assert.strictEqual(refused.status, 422)
      assert.deepStrictEqual(
        refused.body,
        { _tag: "ApiKeyLimit", message: "There are 20 active keys; revoke one first", limit: 20 }
      )
      const repeated = yield* send(...createKey("k19"))
      assert.strictEqual(repeated.status, 201)
      assert.deepStrictEqual(Object.keys(repeated.body).sort(), ["duplicate", "key"])
      assert.strictEqual(repeated.body["duplicate"], true)
      assert.strictEqual((yield* send("DELETE", "/v1/api-keys/k1")).status, 200)
      assert.strictEqual((yield* send(...createKey("k20"))).body["duplicate"], false)
      assert.strictEqual((yield* send(...createKey("k21"))).body["limit"], 20)
    }))

  it.effect("1,000 may exist in all, revoked ones included, and every one is listed", () =>
    Effect.gen(function*() {
      const { list, send } = yield* asNew("all")
      const sql = yield* SqlClient.SqlClient
      yield* sql`INSERT INTO api_keys (integrator_id, name, last4, created_at, revoked_at)
        SELECT 'all', 'old' || n, '0000', now(), now() FROM generate_series(1, 998) AS n`
      assert.strictEqual((yield* send(...createKey("last"))).status, 201)
      const refused = yield* send(...createKey("one more"))
      assert.strictEqual(refused.status, 422)
      assert.deepStrictEqual(refused.body, {
        _tag: "ApiKeyLimit",
        message: "There are 1000 keys in all, revoked ones included",
        limit: 1_000
      })
      assert.strictEqual((yield* send(...createKey("last"))).body["duplicate"], true)
      assert.strictEqual((yield* send(...createKey("old7"))).body["duplicate"], true)
      assert.strictEqual((yield* list).length, 1_000)
    }))

  it.effect("the last active one is kept, revoking twice changes nothing, and a name is never used again", () =>
    Effect.gen(function*() {
      const { key, list, send } = yield* asNew("last")
      const kept = yield* send("DELETE", "/v1/api-keys/default")
      assert.strictEqual(kept.status, 422)
      assert.deepStrictEqual(kept.body, {
        _tag: "LastActiveKey",
        message: "The last active key cannot be revoked; create another one first",
        name: "default"
      })
      const created = yield* send(...createKey("a/b: ü😀"))
      const secret = String(created.body["secret"])
      assert.match(secret, /^service_sk_sandbox_[0-9a-f]{64}$/)
      assert.deepInclude(created.body["key"], { name: "a/b: ü😀", last4: secret.slice(-4) })
      const path = `/v1/api-keys/${encodeURIComponent("a/b: ü😀")}`
      const revoked = yield* send("DELETE", path)
      assert.strictEqual(revoked.status, 200)
      assert.property(revoked.body["key"], "revokedAt")
      assert.deepStrictEqual((yield* send("DELETE", path)).body, revoked.body)
      const again = yield* send(...createKey("a/b: ü😀"))
      assert.strictEqual(again.status, 201)
      assert.deepStrictEqual(again.body, { key: revoked.body["key"], duplicate: true })
      assert.strictEqual((yield* send("DELETE", "/v1/api-keys/default")).status, 422)
      const shown = yield* list
      assert.deepStrictEqual(shown.map(({ name }) => name), ["default", "a/b: ü😀"])
      assert.strictEqual(shown[0]?.last4, key.slice(-4))
      const unknown = yield* send("DELETE", "/v1/api-keys/none")
      assert.deepStrictEqual(
        unknown.body,
        { _tag: "NotFound", message: "There is no api_key with this id", resource: "api_key", id: "none" }
      )
    }))

  it.effect("lastUsedAt is the minute of the latest use", () =>
    Effect.gen(function*() {
      const { list, send } = yield* asNew("used")
      const { now, pass } = yield* AdjustableClock
      const minuteOf = (millis: number) => new Date(Math.floor(millis / 60_000) * 60_000).toISOString()
      const used = (minute: string) =>
        list.pipe(
          Effect.map(([key]) => key?.lastUsedAt),
          Effect.delay("200 millis"),
          Effect.repeat({ until: (at) => at === minute, times: 40 }),
          Effect.map((at) => assert.strictEqual(at, minute))
        )
      // well inside a minute, so that what follows falls into one
      yield* pass(60_000 - (yield* now) % 60_000 + 1_000)
      const first = minuteOf(yield* now)
      assert.notProperty((yield* list)[0], "lastUsedAt")
      yield* used(first)
      yield* pass("5 minutes")
      const second = minuteOf(yield* now)
      yield* send("GET", "/v1/programs")
      yield* used(second)
      assert.notStrictEqual(first, second)
    }))
})
