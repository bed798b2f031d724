import { makeMigrated, serverUrl } from "@card-rewards/dev-postgres/TestDatabase"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { connect, createServer } from "node:net"
import { awaitSchema, schemaOf, underRole } from "../src/AwaitSchema.ts"
import * as Database from "../src/Database.ts"

/** PostgreSQL's last word before it takes statements. */
const readyForQuery = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])

/** A database that lets clients in and from then on swallows what they send; `asked` once there was something to. */
const silent = Effect.gen(function*() {
  const url = new URL(Redacted.value(yield* TestClock.withLive(makeMigrated(Database.migrate))))
  const { hostname, port } = new URL(Redacted.value(serverUrl()))
  const asked = yield* Deferred.make<void>()
  const server = createServer((client) => {
    const database = connect(Number(port), hostname)
    let isReady = false
    database.on("data", (chunk) => {
      client.write(chunk)
      isReady ||= chunk.includes(readyForQuery)
    })
    client.on("data", (chunk) => isReady ? Deferred.doneUnsafe(asked, Effect.void) : database.write(chunk))
    for (const [one, other] of [[client, database], [database, client]] as const) {
      one.on("error", () => {}).on("close", () => other.destroy())
    }
  })
  yield* Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening"))
  yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
  const address = server.address()
  url.hostname = "127.0.0.1"
  url.port = `${typeof address === "object" ? address?.port : 0}`
  return { config: { url: Redacted.make(url.href), poolSize: 2, applicationName: "test" }, asked }
})

const looks = [["the schema", schemaOf, 5], ["the role", underRole, 5], ["the start", awaitSchema, 30]] as const

for (const [what, look, seconds] of looks) {
  it.effect(`a database that takes a connection and answers nothing ends ${what} after ${seconds} s`, () =>
    Effect.gen(function*() {
      const { asked, config } = yield* silent
      const fiber = yield* Effect.forkChild(look(config, "worker"), { startImmediately: true })
      yield* Deferred.await(asked)
      yield* TestClock.adjust(`${seconds - 1} seconds`)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.match((yield* Effect.flip(Fiber.join(fiber))).message, /The database could not be reached/)
    }).pipe(Effect.scoped))
}
