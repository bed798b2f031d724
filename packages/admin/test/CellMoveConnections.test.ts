import * as Connection from "@card-rewards/admin/CellMove/Connection"
import * as Pooler from "@card-rewards/testing/Pooler"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { admin, DatabaseUrl, emptyDatabase, query } from "./Cli.ts"

layer(emptyDatabase, { excludeTestServices: true })("a move of slots", (it) => {
  it.effect("through a pooler in transaction mode is refused before it locks anything", () =>
    Effect.gen(function*() {
      const { url } = yield* DatabaseUrl
      const through = yield* Pooler.make("transaction")
      const cells = (address: Redacted.Redacted) => {
        const text = Redacted.value(address)
        return { CELLS: `a=${text}?slots=0-255,b=${text}?schema=cell_b&slots=` }
      }
      assert.strictEqual((yield* admin(["migrate"], cells(url))).status, 0)
      const move = admin(["cells", "move", "--slots", "0", "--from", "a", "--to", "b"], cells(through(url)))
      const { status, stderr } = yield* move
      const reason = "The connection pooler before the database must be in session mode"
      assert.deepStrictEqual([status, stderr], [1, `Cell a: ${reason}\n`])
      // the sessions of the pooler, which would keep them, live on
      const locks = query(`SELECT FROM pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
      assert.deepStrictEqual(yield* locks, [])
    }))

  it.effect("says that a server cannot be reached, without its address", () =>
    Effect.gen(function*() {
      const url = Redacted.make("postgres://u@127.0.0.1:1/x")
      const { message } = yield* Effect.flip(Connection.connect({ name: "a", url, slots: new Set() }))
      assert.strictEqual(message, "Cell a: its server cannot be reached")
    }))
})
