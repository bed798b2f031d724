import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { admin, DatabaseUrl, emptyDatabase } from "./Cli.ts"

layer(emptyDatabase, { excludeTestServices: true, timeout: "60 seconds" })("the operator's cells", (it) => {
  const run = Effect.fnUntraced(function*(cells: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) {
    const url = Redacted.value((yield* DatabaseUrl).url)
    const all = Object.entries(cells).map(([name, slots]) => `${name}=${url}?schema=cell_${name}&slots=${slots}`)
    return yield* admin(args, { CELLS: all.join() })
  })

  it.effect("get each slot once, whatever CELLS says later", () =>
    Effect.gen(function*() {
      const list = Effect.fnUntraced(function*(cells: Readonly<Record<string, string>>) {
        const { status, stdout } = yield* run(cells, "cells", "list", "--json")
        assert.strictEqual(status, 0)
        const rows = JSON.parse(stdout) as ReadonlyArray<Readonly<Record<string, unknown>>>
        return rows.map(({ cell, schema, schemaVersion, slots }) => [cell, schema, schemaVersion, slots])
      })
      const first = { a: "0-255", b: "" }
      assert.deepStrictEqual(yield* list(first), [["a", "cell_a", 0, ""], ["b", "cell_b", 0, ""]])
      assert.strictEqual((yield* run(first, "migrate")).status, 0)
      assert.deepStrictEqual(yield* list(first), [["a", "cell_a", 1, "0-255"], ["b", "cell_b", 1, ""]])

      const split = { a: "0-127", c: "128-255" }
      const refused = yield* run(split, "migrate")
      const end = "With what the existing cells own, slots 128-255 would not be\n"
      assert.deepStrictEqual([refused.status, refused.stderr], [1, `Each slot must be of one cell. ${end}`])
      assert.deepStrictEqual(yield* list(split), [["a", "cell_a", 1, "0-255"], ["c", "cell_c", 0, ""]])
      // no new cell: there is nothing to give
      assert.strictEqual((yield* run({ a: "0-127", b: "128-255" }, "migrate")).status, 0)
      assert.deepStrictEqual(yield* list(first), [["a", "cell_a", 1, "0-255"], ["b", "cell_b", 1, ""]])
    }))

  it.effect("are found by the integrator, or named", () =>
    Effect.gen(function*() {
      const cells = { a: "0-255", b: "" }
      const created = yield* run(cells, "integrator", "create", "acme")
      assert.strictEqual(created.status, 0, created.stderr)
      const unnamed = yield* run(cells, "integrator", "list")
      assert.deepStrictEqual([unnamed.status, unnamed.stderr], [2, "Say which cell with --cell: a, b\n"])
      assert.include((yield* run(cells, "integrator", "list", "--cell", "a")).stdout, "acme")
      assert.strictEqual((yield* run(cells, "integrator", "list", "--cell", "b", "--json")).stdout, "[]\n")
      const unknown = yield* run(cells, "audit", "--cell", "c")
      assert.deepStrictEqual([unknown.status, unknown.stderr], [2, "--cell must be one of a, b\n"])
    }))
})
