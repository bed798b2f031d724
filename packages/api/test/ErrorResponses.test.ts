import { clearing } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

layer(TestApi.layer(), { excludeTestServices: true })("what no endpoint answers", (it) => {
  const unknownRoutes: ReadonlyArray<readonly [string, string]> = [
    ["GET", "/"], ["GET", "/v1"], ["GET", "/v2/programs"], ["GET", "/v1/nothing"], ["GET", "/health/"],
    ["GET", "//health"],
    ["GET", "/Health"], ["GET", "/V1/programs"], ["GET", "/v1/Programs"], ["GET", "/v1/programs/"],
    ["GET", "/v1/users"],
    ["GET", "/v1/users/"], ["GET", "/v1/users//balance"], ["GET", "/v1/users/u/balance/"], ["GET", "/v1/users/u/b%zz"],
    ["POST", "/health"], ["DELETE", "/v1/users/u"], ["PUT", "/v1/spend-events"], ["OPTIONS", "/v1/spend-events"],
    ["PATCH", "/v1/api-keys"], ["GET", "/v1/spend-events;a"], ["GET", "/v1/users/u/balance/more"],
    ["PUT", "/v1/programs/p"],
    ["GET", "/v1/programs/p/versions/1"], ["OPTIONS", "*"], ["TRACE", "/health"], ["HEAD", "/v1/nothing"]
  ]
  for (const [method, path] of unknownRoutes) {
    it.effect(`${method} ${path} is 404 RouteNotFound, with and without a key`, () =>
      Effect.gen(function*() {
        const api = yield* TestApi
        for (const key of [api.key, ""]) {
          const answer = yield* api.send(method, path, { key })
          assert.strictEqual(answer.status, 404)
          if (method === "HEAD") continue
          assert.strictEqual(answer.body["_tag"], "RouteNotFound")
          assert.strictEqual(typeof answer.body["message"], "string")
          assert.include(answer.headers["content-type"], "application/json")
        }
      }))
  }

  const ids = [
    "plain", "A", "a", "a b", "a/b", "a;b", "a?b", "a#b", "a%b", "a%2Fb", "%", "%25", "%zz", "..", ".", "a+b", "a&b=c",
    "é", "ﷺ",
    "😀".repeat(128), "\u{10ffff}", "x".repeat(128), "a:clearing:b", "\"'<>", "\\", "\u0001", "balance", "users", "*",
    ":userId", "~!@$^()_-=[]{}|,"
  ]
  for (const id of ids) {
    it.effect(`the user id ${JSON.stringify(id.slice(0, 12))} fits in a path`, () =>
      Effect.gen(function*() {
        const api = yield* TestApi
        const path = `/v1/users/${encodeURIComponent(id)}`
        const put = yield* api.send("PUT", path, { json: {} })
        assert.strictEqual(put.status, 200, put.text)
        assert.deepInclude(put.body["user"], { userId: id })
        assert.strictEqual(put.body["outcome"], "enrolled")
        assert.strictEqual((yield* api.send("GET", `${path}/balance`)).body["userId"], id)
        assert.strictEqual((yield* api.send("GET", `${path}/rewards?limit=1`)).status, 200)
      }))
  }

  it.effect("a raw `;` belongs to its segment, and percent-encoding in any case is one spelling", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", "/v1/users/semi;colon", { json: {} })
      const read = yield* api.send("GET", "/v1/users/semi%3bcolon")
      assert.deepInclude(read.body["user"], { userId: "semi;colon" })
      assert.strictEqual((yield* api.send("GET", "/v1/users/semi")).status, 404)
      assert.strictEqual((yield* api.send("GET", "/v1/users/semi%3bcolon/balance?x=;")).status, 200)
      assert.strictEqual((yield* api.send("GET", "/%76%31/users/semi;colon")).status, 200)
    }))

  it.effect("the longest ids fit in a path, also where each character is a percent sign", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const longest = encodeURIComponent("%".repeat(128))
      // its own user's, of an integrator, a user, a transaction and a program
      const reward = `rw:${longest}:${longest}:clearing:${longest}:${longest}`
      const read = yield* api.send("GET", `/v1/users/${longest}/rewards/${reward}/explanation`)
      assert.strictEqual(read.status, 404)
      assert.strictEqual(read.body["resource"], "reward")
    }))

  it.effect("bad percent-encoding is refused only after 401", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      assert.strictEqual((yield* api.send("GET", "/v1/users/%zz", { key: "" })).status, 401)
      assert.strictEqual((yield* api.send("GET", "/v1/users/%zz")).status, 400)
    }))

  it.effect("HEAD is GET without a body", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const head = yield* api.send("HEAD", "/v1/programs")
      assert.strictEqual(head.status, 200)
      assert.strictEqual(head.text, "")
      assert.strictEqual((yield* api.send("HEAD", "/health", { key: "" })).status, 204)
    }))

  it.effect("a body of just 256 KiB fits, and JSON may be typed in any accepted way", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const types = ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=\"UTF-8\""]
      for (const type of types) {
        const answer = yield* api.send(
          "PUT",
          "/v1/users/size",
          { raw: "{}".padEnd(256 * 1024), headers: { "content-type": type } }
        )
        assert.strictEqual(answer.status, 200, answer.text)
      }
    }))

  it.effect("a rotation needs no body and no content type", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      assert.strictEqual((yield* api.send("POST", "/v1/webhook-endpoints/none/rotate-secret")).status, 404)
    }))

  it.effect("a wrong shape is refused before a mismatch of the integrator, and that before a conflict", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const bad = yield* api.send("POST", "/v1/spend-events", { json: clearing({ integratorId: "other", userId: "" }) })
      assert.strictEqual(bad.status, 400)
      const mismatch = yield* api.send("POST", "/v1/spend-events", { json: clearing({ integratorId: "other" }) })
      assert.strictEqual(mismatch.status, 403)
    }))

  it.effect("a fault of the service is 500 without detail", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      yield* api.send("PUT", "/v1/users/fault", { json: {} })
      yield* sql`ALTER TABLE users RENAME COLUMN tier TO tier_away`
      const answer = yield* api.send("GET", "/v1/users/fault")
      yield* sql`ALTER TABLE users RENAME COLUMN tier_away TO tier`
      assert.strictEqual(answer.status, 500)
      assert.deepStrictEqual(Object.keys(answer.body), ["_tag", "message"])
      assert.strictEqual(answer.body["_tag"], "InternalError")
      assert.notInclude(answer.text, "tier")
    }))
})
