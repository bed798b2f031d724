import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { OpenApi } from "effect/http-api"
import { gunzipSync } from "node:zlib"
import * as Docs from "../src/Http/Docs.ts"

type Get = (path: string, headers?: Record<string, string>) => Effect.Effect<{
  readonly status: number
  readonly headers: Headers
  readonly bytes: Uint8Array
}>

class Served extends Context.Service<Served, Get>()("@card-rewards/api/test/Served") {
  static readonly layer = Layer.effect(
    Served,
    Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => HttpRouter.toWebHandler(Docs.layer(SandboxApi), { disableLogger: true })),
        ({ dispose }) => Effect.promise(dispose)
      ),
      ({ handler }): Get => (path, headers = {}) =>
        Effect.promise(async () => {
          const response = await handler(new Request(`http://localhost${path}`, { headers }))
          const bytes = new Uint8Array(await response.arrayBuffer())
          return { status: response.status, headers: response.headers, bytes }
        })
    )
  )
}

const paths = ["/docs", "/openapi.json", "/llms.txt", "/postman.json"]

layer(Served.layer)("/docs, the description and what is made from it", (it) => {
  it.effect("are compressed for clients that accept gzip, and say that they vary", () =>
    Effect.gen(function*() {
      const get = yield* Served
      for (const path of paths) {
        const plain = yield* get(path)
        assert.isNull(plain.headers.get("content-encoding"))
        for (const accept of ["gzip", "br, GZIP;q=0.5", "*"]) {
          const packed = yield* get(path, { "accept-encoding": accept })
          assert.strictEqual(packed.headers.get("content-encoding"), "gzip", `${path} ${accept}`)
          assert.strictEqual(packed.headers.get("vary"), "accept-encoding")
          assert.isBelow(packed.bytes.length, plain.bytes.length / 2)
          assert.strictEqual(Buffer.compare(gunzipSync(packed.bytes), plain.bytes), 0)
        }
        for (const accept of ["identity", "br", "gzip;q=0", "gzip;q=0.00, *", "*;q=0"]) {
          const answer = yield* get(path, { "accept-encoding": accept })
          assert.isNull(answer.headers.get("content-encoding"), `${path} ${accept}`)
          assert.strictEqual(answer.headers.get("vary"), "accept-encoding")
        }
      }
      const description = yield* get("/openapi.json")
      assert.strictEqual(description.headers.get("content-type"), "application/json")
      assert.deepStrictEqual(
        JSON.parse(Buffer.from(description.bytes).toString()),
        JSON.parse(JSON.stringify(OpenApi.fromApi(SandboxApi)))
      )
    }))

  it.effect("are 304 for clients that have them", () =>
    Effect.gen(function*() {
      const get = yield* Served
      for (const path of paths) {
        const etag = (yield* get(path)).headers.get("etag") ?? assert.fail("there is no tag")
        for (const tags of [etag, `"other", ${etag}`, "*"]) {
          const answer = yield* get(path, { "if-none-match": tags })
          assert.deepStrictEqual([answer.status, answer.bytes.length, answer.headers.get("etag")], [304, 0, etag])
        }
        assert.strictEqual((yield* get(path, { "if-none-match": "\"other\"" })).status, 200)
      }
    }))
})
