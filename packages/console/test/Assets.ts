import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { Stage } from "./Stage.ts"

/** The page under its content security policy, its script as browsers cache it, and nothing outside of the folder. */
export const servesAssets = Effect.gen(function* () {
  const { baseUrl } = yield* Stage
  const get = (path: string) => Effect.promise(() => fetch(`${baseUrl}${path}`))
  const page = yield* get("/console")
  const policy = page.headers.get("content-security-policy") ?? ""
  assert.notInclude(policy, "unsafe")
  assert.notInclude(policy, "http")
  assert.include(policy, "default-src 'none'")
  assert.strictEqual(page.headers.get("cache-control"), "no-cache")
  const html = yield* Effect.promise(() => page.text())
  const script = /src="(\/console\/assets\/[^"]+\.js)"/.exec(html)?.[1] ?? ""
  const asset = yield* get(script)
  assert.strictEqual(asset.status, 200)
  assert.strictEqual(asset.headers.get("content-encoding"), "gzip")
  assert.include(asset.headers.get("cache-control") ?? "", "immutable")
  assert.isBelow(Number(asset.headers.get("content-length")), 300_000)
  for (const path of [
    "/console/assets/none.js",
    "/console/assets/..%2Findex.html",
    "/console/assets/%2e%2e%2f%2e%2e%2fpackage.json"
  ]) {
    assert.strictEqual((yield* get(path)).status, 404, path)
  }
})
