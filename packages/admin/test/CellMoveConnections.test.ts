import * as Connection from "@card-rewards/admin/CellMove/Connection"
import * as Pooler from "@card-rewards/testing/Pooler"
import { listen } from "@card-rewards/testing/LoopbackServer"
import { assert, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { createServer } from "node:net"
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

/** PostgreSQL's messages that a login is accepted, and that it takes statements. */
const accepted = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49])

for (const [end, how] of [["within 5 s", "fails"], ["at once where it is interrupted", "ends"]] as const) {
  it.effect(`a connection to a server that answers no statement ${how} ${end}`, () =>
    Effect.gen(function*() {
      const received = yield* Deferred.make<void>()
      const server = createServer((client) => {
        client.on("error", () => {}).once("data", () => {
          client.write(accepted)
          client.once("data", () => Deferred.doneUnsafe(received, Effect.void))
        })
      })
      const { port } = yield* listen(server)
      const cell = { name: "a", url: Redacted.make(`postgres://u@127.0.0.1:${port}/x`), slots: new Set<number>() }
      const connecting = yield* Effect.forkChild(Effect.scoped(Connection.connect(cell)))
      yield* Deferred.await(received)
      if (how === "ends") return yield* Fiber.interrupt(connecting)
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Effect.flip(Fiber.join(connecting))).message, "Cell a: its server does not answer")
    }).pipe(Effect.scoped))
}
