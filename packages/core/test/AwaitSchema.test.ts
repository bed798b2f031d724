import { makeMigrated, serverUrl } from "@card-rewards/dev-postgres/TestDatabase"
import { listen } from "@card-rewards/testing/LoopbackServer"
import { certificate } from "@card-rewards/testing/WebhookReceiver"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"
import { TLSSocket } from "node:tls"
import { awaitSchema, schemaOf, unusable, usableNow } from "../src/AwaitSchema.ts"
import * as Database from "../src/Database.ts"
import { ServerError, unavailable } from "../src/Database/Errors.ts"

/** The message after which PostgreSQL accepts statements. */
const readyForQuery = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])

/** A migrated database behind a proxy, which hands each connection's pair of sockets to `join`. */
const proxied = Effect.fnUntraced(function*(join: (client: Socket, database: Socket) => void) {
  const url = new URL(Redacted.value(yield* makeMigrated(Database.migrate)))
  const { hostname, port } = new URL(Redacted.value(serverUrl()))
  const server = createServer((client) => {
    const database = connect(Number(port), hostname)
    join(client, database)
    for (const [one, other] of [[client, database], [database, client]] as const) {
      one.on("error", () => {}).on("close", () => other.destroy())
    }
  })
  yield* Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening"))
  yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
  const address = server.address()
  url.hostname = "127.0.0.1"
  url.port = `${typeof address === "object" ? address?.port : 0}`
  return { url: Redacted.make(url.href), poolSize: 2, applicationName: "test" }
})

/**
 * A database that accepts connections and then answers no statement. `received` completes with the first statement that
 * it receives.
 */
const silent = Effect.gen(function*() {
  const received = yield* Deferred.make<void>()
  const config = yield* TestClock.withLive(proxied((client, database) => {
    let isReady = false
    database.on("data", (chunk) => {
      client.write(chunk)
      isReady ||= chunk.includes(readyForQuery)
    })
    client.on("data", (chunk) => isReady ? Deferred.doneUnsafe(received, Effect.void) : database.write(chunk))
  }))
  return { config, received }
})

const checks = [["the schema", schemaOf, 5], ["schema and role", usableNow, 5], ["a start", awaitSchema, 30]] as const

for (const [name, check, seconds] of checks) {
  it.effect(`the check of ${name} fails after ${seconds} s where a connected database never answers`, () =>
    Effect.gen(function*() {
      const { received, config } = yield* silent
      const fiber = yield* Effect.forkChild(check(config, "worker"), { startImmediately: true })
      yield* Deferred.await(received)
      yield* TestClock.adjust(`${seconds - 1} seconds`)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.match((yield* Effect.flip(Fiber.join(fiber))).message, /The database could not be reached/)
    }).pipe(Effect.scoped))
}

it.live("a start goes on where the database goes away in the middle of a check, and comes back", () =>
  Effect.gen(function*() {
    let connections = 0
    const config = yield* proxied((client, database) => {
      if (++connections === 2) return void client.destroy()
      client.pipe(database).pipe(client)
    })
    assert.deepStrictEqual(yield* awaitSchema(config, "worker"), { ...config, role: "worker" })
    assert.strictEqual(connections, 4)
  }).pipe(Effect.scoped))

it.live("a server without TLS, which an address requires, is named as the reason", () =>
  Effect.gen(function*() {
    const url = Redacted.make(`${Redacted.value(serverUrl())}?sslmode=verify-full`)
    const { message } = yield* Effect.flip(schemaOf({ url, poolSize: 1, applicationName: "test" }))
    assert.strictEqual(message, "The server does not support TLS, which its address requires")
  }))

it.live("a server whose certificate is not trusted is named as the reason", () =>
  Effect.gen(function*() {
    const server = createServer((socket) => {
      socket.on("error", () => {}).once("data", () => {
        socket.write("S")
        new TLSSocket(socket, { isServer: true, ...certificate() }).on("error", () => {})
      })
    })
    const { port } = yield* listen(server)
    const url = Redacted.make(`postgres://u:p@127.0.0.1:${port}/x?sslmode=verify-full`)
    const { message } = yield* Effect.flip(schemaOf({ url, poolSize: 1, applicationName: "test" }))
    assert.match(message, /^The server's certificate is refused: UNABLE_TO_VERIFY_LEAF_SIGNATURE$/)
  }).pipe(Effect.scoped))

it("what PostgreSQL said is the reason, also of an operation of a starting process that was unavailable", () => {
  const said = new ServerError({ code: "42501", message: "permission denied to set role (42501)" })
  assert.strictEqual(
    unusable(unavailable(said)).message,
    "The database refused: permission denied to set role (42501)"
  )
  assert.strictEqual(unusable(unavailable()).message, "The database could not be reached")
})
