import { Sandbox } from "@card-rewards/domain/http/Sandbox"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { endpoints } from "./Declared.ts"

const routeNotFound = { _tag: "RouteNotFound", message: "There is no such route, or not with this method" }
const options = { excludeTestServices: true } as const

/** As a request names it; the ids need not exist. */
const target = (path: string) => path.replace(":version", "1").replace(/:\w+/g, "x")

const methodsOf = Map.groupBy(endpoints, ({ path }) => path)

/** It is no route: neither with a key nor without one, neither with a body nor without. */
const isNoRoute = Effect.fnUntraced(function*(method: string, path: string) {
  const api = yield* TestApi
  for (const sent of [{}, { key: "" }, { json: {} }, { raw: "{" }, { key: "no key" }]) {
    const answer = yield* api.send(method, path, sent)
    assert.strictEqual(answer.status, 404, `${method} ${path}`)
    assert.match(answer.headers["content-type"] ?? "", /^application\/json/)
    assert.notProperty(answer.headers, "ratelimit")
    if (method !== "HEAD") assert.deepStrictEqual(answer.body, routeNotFound)
  }
})

layer(TestApi.layer(), options)("a known path with another method is 404 RouteNotFound:", (it) => {
  for (const [path, declared] of methodsOf) {
    const known = declared.map(({ method }) => method)
    // HEAD is answered as GET is, without the body
    if (known.includes("GET")) known.push("HEAD")
    const others = [
      "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"
    ].filter((method) => !known.some((one) => one === method))
    it.effect(`${others.join(", ")} ${path}`, () => Effect.forEach(others, (method) => isNoRoute(method, target(path))))
  }
})

layer(TestApi.layer(), options)("what is no path is 404 RouteNotFound:", (it) => {
  for (const { method, path } of endpoints) {
    const at = target(path)
    const others = [
      `${at}/`,
      `/${at}`,
      `${at}/more`,
      at.toUpperCase(),
      at.replace("/v1/", "/v2/"),
      at.replace("/v1/", "/"),
      `${at}s`
    ]
      // an id may be anything, so these are ids
      .filter((other) => !endpoints.some((one) => one.method === method && matches(one.path, other)))
    it.effect(`beside ${method} ${path}`, () => Effect.forEach(others, (other) => isNoRoute(method, other)))
  }
})

function matches(pattern: string, path: string) {
  return new RegExp(`^${pattern.replace(/:\w+/g, "[^/]+")}$`).test(path)
}

layer(TestApi.layer({ environment: "production" }), options)("production", (it) => {
  const isSandbox = ({ path }: { readonly path: string }) => path.startsWith("/v1/sandbox/")

  it.effect("has no route of the sandbox, with or without a key", () =>
    Effect.gen(function*() {
      assert.strictEqual(endpoints.filter(isSandbox).length, Object.keys(Sandbox.endpoints).length)
      for (const { method, path } of endpoints.filter(isSandbox)) yield* isNoRoute(method, path)
    }))

  it.effect("has every other route", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      for (const { method, path } of endpoints.filter((endpoint) => !isSandbox(endpoint))) {
        const answer = yield* api.send(method, target(path), { key: "" })
        assert.strictEqual(answer.status, path === "/health" ? 204 : 401, `${method} ${path}`)
      }
    }))

  it.effect("gives keys of its own, and takes no others", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      assert.match(api.key, /^service_sk_live_[0-9a-f]{64}$/)
      const created = yield* api.send("POST", "/v1/api-keys", { json: { name: "second" } })
      assert.match(String(created.body["secret"]), /^service_sk_live_[0-9a-f]{64}$/)
      const key = api.key.replace("live", "sandbox")
      assert.strictEqual((yield* api.send("GET", "/v1/programs", { key })).status, 401)
    }))
})
