import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gunzipSync } from "node:zlib"
import * as Console from "../src/Http/Console.ts"

/** A folder of builds, and what is answered from it. */
const served = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = mkdtempSync(join(tmpdir(), "card-rewards-console-"))
    const { dispose, handler } = HttpRouter.toWebHandler(
      Console.layer(`${folder}/`).pipe(Layer.provide(NodeFileSystem.layer)),
      { disableLogger: true }
    )
    const get = (path: string, headers: Record<string, string> = {}) =>
      Effect.promise(() => handler(new Request(`http://localhost${path}`, { headers })))
    const build = (page: string, assets: Record<string, string>) => {
      mkdirSync(join(folder, "assets"), { recursive: true })
      for (const [name, text] of Object.entries(assets)) writeFileSync(join(folder, "assets", name), text)
      writeFileSync(join(folder, "index.html"), page)
    }
    return { folder, get, build, dispose }
  }),
  ({ dispose, folder }) =>
    Effect.promise(async () => {
      await dispose()
      rmSync(folder, { recursive: true })
    })
)

const text = (response: Response) => Effect.promise(() => response.text())

describe("the console's files", () => {
  it.effect("are 503, with a line that says so, until they are built, and are served from then on", () =>
    Effect.gen(function*() {
      const { build, get } = yield* served
      const before = yield* get("/console")
      assert.strictEqual(before.status, 503)
      assert.strictEqual(before.headers.get("refresh"), "2")
      assert.include(yield* text(before), "being built")
      build("<p>one</p>", { "a-1.js": "one" })
      assert.strictEqual(yield* text(yield* get("/console")), "<p>one</p>")
      assert.strictEqual(yield* text(yield* get("/console/assets/a-1.js")), "one")
    }))

  it.effect("are those of the latest build, without a restart", () =>
    Effect.gen(function*() {
      const { build, get } = yield* served
      build("<p>one</p>", { "a-1.js": "one" })
      yield* get("/console")
      yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 20)))
      build("<p>two</p>", { "a-2.js": "two" })
      assert.strictEqual(yield* text(yield* get("/console")), "<p>two</p>")
      assert.strictEqual(yield* text(yield* get("/console/assets/a-2.js")), "two")
    }))

  it.effect("are compressed for clients that accept it, and equal the build", () =>
    Effect.gen(function*() {
      const { build, get } = yield* served
      build("<p>one</p>", { "a-1.js": "one" })
      const packed = yield* get("/console/assets/a-1.js", { "accept-encoding": "br, gzip" })
      assert.strictEqual(packed.headers.get("content-encoding"), "gzip")
      assert.strictEqual(packed.headers.get("vary"), "accept-encoding")
      const bytes = yield* Effect.promise(() => packed.arrayBuffer())
      assert.strictEqual(gunzipSync(bytes).toString(), "one")
      for (const path of ["/console/assets/b.js", "/console/assets/..%2findex.html"]) {
        assert.strictEqual((yield* get(path)).status, 404, path)
      }
    }))
})
