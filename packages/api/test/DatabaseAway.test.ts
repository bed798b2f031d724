import { DatabaseProxy } from "@card-rewards/dev-postgres/DatabaseProxy"
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { clearing, TestApi } from "./TestApi.ts"

const unknownKey = `service_sk_sandbox_${"1".repeat(64)}`

layer(
  TestApi.layer({ throughProxy: true }).pipe(Layer.provideMerge(DatabaseProxy.layer)),
  { timeout: "60 seconds", excludeTestServices: true }
)("with the database away", (it) => {
  it.effect("a known key gets 400 for a malformed body and 503 within 5 s otherwise, any other key 503, and all heals", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const proxy = yield* DatabaseProxy
      assert.strictEqual((yield* api.send("PUT", "/v1/users/ann", { json: {} })).status, 200)
      yield* proxy.cut
      const timed = (method: string, path: string, sent?: Parameters<typeof api.send>[2]) =>
        Effect.timed(api.send(method, path, sent))
      const requests = [
        timed("GET", "/v1/users/ann"),
        timed("POST", "/v1/spend-events", { json: clearing() }),
        timed("GET", "/v1/users/ann/balance", { key: unknownKey }),
        timed("GET", "/v1/users/ann/balance", { key: "nonsense" })
      ]
      for (const [took, answer] of yield* Effect.all(requests, { concurrency: "unbounded" })) {
        assert.strictEqual(answer.status, 503, answer.text)
        assert.strictEqual(answer.body["_tag"], "Unavailable")
        assert.match(answer.headers["retry-after"] ?? "", /^[1-9]/)
        assert.isBelow(Duration.toMillis(took), 5_200)
      }
      assert.strictEqual((yield* api.send("PUT", "/v1/users/ann", { raw: "{" })).status, 400)
      assert.strictEqual((yield* api.send("GET", "/health", { key: "" })).status, 204)
      yield* proxy.mend
      const healed = yield* api.send("GET", "/v1/users/ann").pipe(
        Effect.delay("250 millis"),
        Effect.repeat({ until: ({ status }) => status === 200, times: 40 })
      )
      assert.strictEqual(healed.status, 200)
      assert.strictEqual((yield* api.send("GET", "/v1/users/ann", { key: unknownKey })).status, 401)
    }))

  it.effect("a network that swallows everything is 503 too, within 5 s for a key and for a spend event", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const proxy = yield* DatabaseProxy
      assert.strictEqual((yield* api.send("PUT", "/v1/users/bob", { json: {} })).status, 200)
      yield* proxy.freeze
      const requests = [
        api.send("POST", "/v1/spend-events", { json: clearing({ userId: "bob" }) }),
        api.send("GET", "/v1/users/bob", { key: unknownKey }),
        api.send("GET", "/v1/users/bob"),
        api.send("GET", "/v1/users/bob/balance")
      ]
      const answers = yield* Effect.all(requests.map(Effect.timed), { concurrency: "unbounded" })
      yield* proxy.mend
      for (const [index, [took, answer]] of answers.entries()) {
        assert.strictEqual(answer.status, 503, answer.text)
        // a handler whose query is abandoned on a live connection ends when core lets go of it
        if (index < 2) assert.isBelow(Duration.toMillis(took), 5_200, `request ${index}`)
      }
    }))
})
