import { untilTrue } from "@card-rewards/testing/Polling"
import { clearing } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { deadlineMillis } from "../src/Pipeline/RequestBodies.ts"
import { maxChunks } from "../src/Server/Request.ts"

/** The head of a post, on a connection of its own; `until` waits for an answer that includes a text and returns all. */
const request = Effect.fnUntraced(function*(key: string, header: string, version = "1.1") {
  const { port } = yield* TestApi
  const socket = yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const connected = connect(port, "127.0.0.1").setEncoding("utf8").on("error", () => {})
      await once(connected, "connect")
      return connected
    }),
    (connected) => Effect.sync(() => connected.destroy())
  )
  let received = ""
  socket.on("data", (chunk: string) => received += chunk)
  const headers = `host: x\r\nx-api-key: ${key}\r\ncontent-type: application/json\r\n`
  socket.write(`POST /v1/spend-events HTTP/${version}\r\n${headers}${header}\r\n`)
  const until = (text: string) =>
    Effect.suspend(() => received.includes(text) ? Effect.succeed(received) : Effect.fail("no answer yet")).pipe(
      Effect.retry(Schedule.spaced("20 millis"))
    )
  return { socket, until }
})

const post = (key: string, body: string, header = "", version?: string) =>
  request(key, `content-length: ${body.length}\r\n${header}`, version)

/** A post whose body has arrived in part; `rest` sends the rest, `answer` is all that it received. */
const halfSent = Effect.fnUntraced(function*(key: string, body: string, sentBytes: number) {
  const { socket, until } = yield* post(key, body)
  socket.write(body.slice(0, sentBytes))
  return { rest: () => socket.write(body.slice(sentBytes)), answer: until("}") }
})

/** How a body is sent, and the headers for that. */
const framings: ReadonlyArray<readonly [how: string, headers: Readonly<Record<string, string>>]> = [
  ["with its length", {}],
  ["in chunks", { "content-length": "", "transfer-encoding": "chunked" }]
]

/** A body of which all problems are found, which takes milliseconds. */
const costly = JSON.stringify(Object.fromEntries(Array.from({ length: 1_900 }, (_, index) => [`k${index}`, 0])))

/** The connection of a post whose body lacks its last byte. */
const withoutEnd = Effect.fnUntraced(function*(key: string, body: string) {
  const { socket } = yield* post(key, body)
  socket.write(body.slice(0, -1))
  return socket
})

layer(TestApi.layer(), { excludeTestServices: true })("a body that arrives in parts", (it) => {
  it.effect("is read until its end", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", "/v1/users/ann", { json: {} })
      const { answer, rest } = yield* halfSent(api.key, JSON.stringify(clearing()), 20)
      yield* Effect.sleep("50 millis")
      rest()
      assert.include(yield* answer, "HTTP/1.1 202 ")
    }).pipe(Effect.scoped))

  it.effect("counts for its integrator alone, and leaves room for its other requests", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", "/v1/users/ann", { json: {} })
      const body = JSON.stringify(clearing({ externalTransactionId: "parts" }))
      const send = (key: string, integratorId: string) =>
        api.send("POST", "/v1/spend-events", { key, json: clearing({ externalTransactionId: "whole", integratorId }) })
      const refused = Effect.gen(function*() {
        // more than one integrator may have in flight
        yield* Effect.forEach(Array.from({ length: 1_200 }), () => halfSent(api.key, body, 20), { concurrency: 50 })
        assert.strictEqual((yield* send(api.otherKey, "other")).status, 422)
        // they arrive one after the other
        const own = yield* Effect.repeat(send(api.key, "acme"), {
          schedule: Schedule.spaced("50 millis"),
          until: ({ status }) => status !== 202,
          times: 100
        })
        assert.strictEqual((yield* api.send("GET", "/v1/users/ann")).status, 200)
        // where the machine stalls, the first ones have not arrived in time
        return own.status === 202 ? yield* Effect.fail("not full") : own
      })
      const own = yield* Effect.retry(Effect.scoped(refused), { times: 3 })
      assert.strictEqual(own.status, 503)
      assert.match(own.headers["retry-after"] ?? "", /^[1-9]/)
    }))

  it.effect("may have so many chunks, however small, and is refused with one more", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", "/v1/users/ann", { json: {} })
      const json = JSON.stringify(clearing({ externalTransactionId: "chunks" }))
      const text = `${json}${" ".repeat(maxChunks + 1 - json.length)}`
      const chunk = (bytes: string) => `${bytes.length.toString(16)}\r\n${bytes}\r\n`
      const send = Effect.fnUntraced(function*(chunks: ReadonlyArray<string>) {
        const { socket, until } = yield* request(api.key, "transfer-encoding: chunked\r\n")
        // in one write, so that the server reads many at once
        socket.write(`${chunks.map(chunk).join("")}0\r\n\r\n`)
        const answer = yield* until("}")
        socket.write("GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        yield* until("HTTP/1.1 204 ")
        return answer
      })
      const [first = "", second = "", ...others] = text
      assert.include(yield* send([`${first}${second}`, ...others]), "HTTP/1.1 202 ")
      const refused = yield* send([first, second, ...others])
      assert.include(refused, "HTTP/1.1 400 ")
      assert.include(refused, `expected a body of at most ${maxChunks} chunks`)
      assert.include(yield* send([...text, ...text, ...text, ...text]), "HTTP/1.1 400 ")
    }).pipe(Effect.scoped))

  it.effect.each(framings)("and is large counts until it is answered, sent %s: at most eight of 1 MB", ([, headers]) =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const raw = JSON.stringify({ events: [clearing({ externalTransactionId: "large" })] }).padEnd(1_000_000)
      const nine = Array.from({ length: 9 }, () => api.send("POST", "/v1/spend-events/batch", { raw, headers }))
      for (const one of nine) assert.strictEqual((yield* one).status, 200)
      const sent = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        yield* sql`LOCK TABLE spend_events`
        const fibers = yield* Effect.forEach(nine, (one) => Effect.forkChild(one))
        const first = yield* Effect.raceAllFirst(fibers.map((fiber) => Fiber.await(fiber)))
        assert.match(`${(yield* first).body["message"]}`, /^The service has more to do than it can/)
        return fibers
      }))
      const statuses = yield* Effect.forEach(sent, (fiber) => Effect.map(Fiber.join(fiber), ({ status }) => status))
      assert.deepStrictEqual(statuses.toSorted(), [...Array.from({ length: 8 }, () => 200), 503])
    }))

  it.effect("is decoded in its integrator's turn, where another one completes many that take long at once", () =>
    Effect.gen(function*() {
      const { key, otherKey } = yield* TestApi
      const flood = yield* Effect.forEach(Array.from({ length: 200 }), () => withoutEnd(key, costly))
      const answered: Array<string> = []
      const note = (client: string, socket: Socket) => socket.once("data", () => answered.push(client))
      for (const socket of flood) note("flood", socket)
      const other = yield* withoutEnd(otherKey, "{}")
      note("other", other)
      for (const socket of [...flood, other]) socket.write("}")
      yield* untilTrue(Effect.sync(() => answered.length === flood.length + 1))
      assert.isBelow(answered.indexOf("other"), flood.length / 2)
    }).pipe(Effect.scoped))

  it.effect("is forgotten where its client goes away before its turn", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      // more than one integrator may have
      for (let round = 0; round < 8; round++) {
        const flood = yield* Effect.forEach(Array.from({ length: 150 }), () => withoutEnd(api.key, costly))
        for (const socket of flood) socket.write("}", () => socket.destroy())
        yield* Effect.promise(() => Promise.all(flood.map((socket) => socket.closed || once(socket, "close"))))
      }
      const { status } = yield* api.send("POST", "/v1/spend-events", { key: api.key, json: {} })
      assert.strictEqual(status, 400)
    }).pipe(Effect.scoped))

  it.effect("harms nothing where its client goes away while an earlier request of the connection is not answered", () =>
    Effect.gen(function*() {
      const uncaught: Array<unknown> = []
      const note = (error: unknown) => uncaught.push(error)
      yield* Effect.acquireRelease(
        Effect.sync(() => process.on("uncaughtException", note)),
        () => Effect.sync(() => process.off("uncaughtException", note))
      )
      const { key } = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const isHeld = yield* Deferred.make<void>()
      // a move of the clock waits for it
      const holder = yield* sql`SELECT FROM integrators FOR UPDATE`.pipe(
        Effect.andThen(Deferred.succeed(isHeld, undefined)),
        Effect.andThen(Effect.never),
        sql.withTransaction,
        Effect.forkChild
      )
      yield* Deferred.await(isHeld)
      const { port } = yield* TestApi
      for (let round = 0; round < 5; round++) {
        const socket = connect(port, "127.0.0.1").on("error", () => {})
        const head = (path: string, length: number) =>
          `PUT ${path} HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\ncontent-type: application/json\r\n` +
          `content-length: ${length}\r\n\r\n`
        const move = JSON.stringify({ now: "2099-01-01T00:00:00Z" })
        socket.write(`${head("/v1/sandbox/clock", move.length)}${move}${head("/v1/users/ann", 100)}{`)
        yield* Effect.sleep("100 millis")
        socket.destroy()
        yield* Effect.sleep("50 millis")
      }
      yield* Fiber.interrupt(holder)
      assert.deepStrictEqual(uncaught, [])
    }).pipe(Effect.scoped))

  it.effect("is refused after its deadline", () =>
    Effect.gen(function*() {
      const { key } = yield* TestApi
      const { answer } = yield* halfSent(key, JSON.stringify(clearing()), 20)
      const [took, text] = yield* Effect.timed(answer)
      assert.include(text, "HTTP/1.1 400 ")
      assert.include(text, "the body did not arrive within 10 s")
      assert.isAtLeast(Duration.toMillis(took), deadlineMillis)
    }).pipe(Effect.scoped))
})

layer(
  TestApi.layer(),
  { excludeTestServices: true }
)("a client that asks whether it may send its body", (it) => {
  const expect = "expect: 100-continue\r\n"

  it.effect("is told to go on, and its connection stays open", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", "/v1/users/ann", { json: {} })
      const body = JSON.stringify(clearing())
      const { socket, until } = yield* post(api.key, body, expect)
      yield* until("HTTP/1.1 100 Continue")
      socket.write(body)
      assert.notInclude((yield* until("HTTP/1.1 202 ")).toLowerCase(), "connection: close")
      socket.write("GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
      yield* until("HTTP/1.1 204 ")
    }).pipe(Effect.scoped))

  it.effect("is not told to go on where it speaks HTTP/1.0, which has no such answer", () =>
    Effect.gen(function*() {
      const { key } = yield* TestApi
      const body = JSON.stringify(clearing())
      const { socket, until } = yield* post(key, body, expect, "1.0")
      socket.write(body)
      assert.isTrue((yield* until("202 Accepted")).startsWith("HTTP/1.1 202 "))
    }).pipe(Effect.scoped))

  it.effect("is refused with the end of its connection, so that nothing later is taken for the body", () =>
    Effect.gen(function*() {
      const { socket, until } = yield* post("cr_unknown", JSON.stringify(clearing()), expect)
      const refusal = yield* until("HTTP/1.1 401 ")
      assert.notInclude(refusal, "100 Continue")
      assert.include(refusal.toLowerCase(), "connection: close")
      yield* Effect.suspend(() => socket.readableEnded ? Effect.void : Effect.fail("not ended")).pipe(
        Effect.retry({ schedule: Schedule.spaced("20 millis"), times: 250 })
      )
    }).pipe(Effect.scoped))
})
