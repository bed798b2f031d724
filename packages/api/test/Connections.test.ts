import { untilTrue } from "@card-rewards/testing/Polling"
import { assert, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer } from "effect"
import { HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { maxHandled } from "../src/Server/Connection.ts"
import * as Server from "../src/Server.ts"

/** Serves requests that end when the test says so, on the port that it returns. */
const serveHeld = Effect.fnUntraced(function*(options: Partial<Parameters<typeof Server.layer>[0]> = {}) {
  const state = { handled: 0, most: 0, started: 0 }
  const end = yield* Deferred.make<void>()
  const answer = Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const body = request.method === "POST" ? yield* Effect.orDie(request.text) : ""
    state.started++
    state.handled++
    state.most = Math.max(state.most, state.handled)
    // as the router makes its handlers
    const held = request.url === "/at-once" ? Effect.void : Effect.interruptible(Deferred.await(end))
    yield* Effect.ensuring(held, Effect.sync(() => state.handled--))
    const length = { "/large": 1_000_000, "/larger": 2_000_000 }[request.url]
    return HttpServerResponse.text(length === undefined ? `${request.url} ${body}` : "x".repeat(length))
  })
  const server = yield* Layer.build(Server.layer({ host: "127.0.0.1", port: 0, ...options }))
  yield* HttpServer.serveEffect(answer).pipe(Effect.provideContext(server))
  const { address } = Context.get(server, HttpServer.HttpServer)
  return { port: "port" in address ? address.port : 0, state, end: Deferred.succeed(end, undefined) }
})

const client = (port: number) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const socket = connect(port, "127.0.0.1")
      await once(socket, "connect")
      return socket.on("error", () => {})
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

const until = (condition: () => boolean) => untilTrue(Effect.sync(condition))

const received = (socket: Socket) => {
  const chunks: Array<string> = []
  socket.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk))
  return () => chunks.join("")
}

it.live("a connection's pipelined requests are handled 16 at a time and answered in order", () =>
  Effect.gen(function*() {
    const { end, port, state } = yield* serveHeld()
    const socket = yield* client(port)
    const text = received(socket)
    const count = 2_000
    socket.write(Array.from({ length: count }, (_, index) => `GET /${index} HTTP/1.1\r\nhost: x\r\n\r\n`).join(""))
    yield* until(() => state.started === maxHandled)
    yield* Effect.sleep("100 millis")
    assert.strictEqual(state.started, maxHandled)
    yield* end
    yield* until(() => text().includes(`/${count - 1} `))
    assert.strictEqual(state.most, maxHandled)
    const paths = [...text().matchAll(/^\/(\d+) /gmu)].map(([, index]) => Number(index))
    assert.deepStrictEqual(paths, Array.from({ length: count }, (_, index) => index))
  }).pipe(Effect.scoped))

it.live("a socket with waiting requests is not read, and what it had sent is answered later, bodies too", () =>
  Effect.gen(function*() {
    const { end, port, state } = yield* serveHeld()
    const socket = yield* client(port)
    const text = received(socket)
    const body = "x".repeat(100_000)
    const post = `POST /last HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`
    const get = `GET /first HTTP/1.1\r\nhost: x\r\npadding: ${"x".repeat(8_000)}\r\n\r\n`
    socket.write(get.repeat(maxHandled + 1))
    yield* until(() => state.started === maxHandled)
    // more than the buffers between two processes hold
    const filler = get.repeat(2_000)
    let isRead = false
    socket.write(filler + post, () => isRead = true)
    yield* Effect.sleep("300 millis")
    assert.isFalse(isRead)
    yield* end
    yield* until(() => text().includes(`/last ${body}`))
    assert.strictEqual(state.most, maxHandled)
  }).pipe(Effect.scoped))

it.live("other connections are served while one waits, and the end of that one frees all of it", () =>
  Effect.gen(function*() {
    const { end, port, state } = yield* serveHeld()
    const flood = yield* client(port)
    flood.write("GET /flood HTTP/1.1\r\nhost: x\r\n\r\n".repeat(500))
    yield* until(() => state.handled === maxHandled)
    const other = yield* client(port)
    const text = received(other)
    other.write("GET /at-once HTTP/1.1\r\nhost: x\r\n\r\n")
    yield* until(() => text().includes("/at-once"))
    assert.strictEqual(state.handled, maxHandled)
    flood.destroy()
    yield* end
    yield* until(() => state.handled === 0)
  }).pipe(Effect.scoped))

it.live("what waited on connections that have ended counts for none that comes later", () =>
  Effect.gen(function*() {
    const { end, port, state } = yield* serveHeld({ silentMillis: 500 })
    const requests = "GET /flood HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2_000)
    // more would wait of all rounds together than a client may have waiting
    for (let round = 0; round < 2; round++) {
      const floods = yield* Effect.forEach([1, 2], () => client(port))
      for (const flood of floods) flood.write(requests)
      yield* until(() => state.handled === 2 * maxHandled)
      yield* until(() => state.handled === 0)
    }
    const last = yield* client(port)
    const text = received(last)
    last.write(requests)
    yield* end
    yield* until(() => text().split("HTTP/1.1 200").length === 2_001)
  }).pipe(Effect.scoped))

it.live("the handlers of all pipelined requests end with their connection", () =>
  Effect.gen(function*() {
    const { port, state } = yield* serveHeld({ silentMillis: 300 })
    const silent = yield* client(port)
    silent.write("GET /held HTTP/1.1\r\nhost: x\r\n\r\n".repeat(500))
    yield* until(() => state.started === maxHandled)
    yield* until(() => state.handled === 0)
    assert.strictEqual(state.started, maxHandled)
  }).pipe(Effect.scoped))

it.live("and also where it ends with CONNECT, for which Node takes the socket from its responses", () =>
  Effect.gen(function*() {
    const { port, state } = yield* serveHeld()
    const socket = yield* client(port)
    socket.write("GET /held HTTP/1.1\r\nhost: x\r\n\r\n".repeat(3))
    yield* until(() => state.started === 3)
    socket.write("CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n")
    yield* until(() => state.handled === 0)
  }).pipe(Effect.scoped))

it.live("a request that asks for an upgrade is answered as any other, and its connection stays HTTP/1.1", () =>
  Effect.gen(function*() {
    const { end, port } = yield* serveHeld()
    yield* end
    const socket = yield* client(port)
    const text = received(socket)
    const upgrade = "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
    socket.write(`POST /h2c HTTP/1.1\r\nhost: x\r\n${upgrade}content-length: 2\r\n\r\n{}`)
    yield* until(() => text().includes("/h2c"))
    socket.write("GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
    yield* until(() => text().includes("/ws"))
    socket.write("GET /next HTTP/1.1\r\nhost: x\r\n\r\n")
    yield* until(() => text().includes("/next"))
    const statuses = [...text().matchAll(/HTTP\/1\.1 (\d+)/gu)].map(([, status]) => status)
    assert.deepStrictEqual(statuses, ["200", "200", "200"])
    assert.include(text(), "/h2c {}")
  }).pipe(Effect.scoped))

it.live("2,000 connections that come at once are all opened at once", () =>
  Effect.gen(function*() {
    const { end, port } = yield* serveHeld()
    yield* end
    // none is accepted before all of them are on their way
    const sockets = yield* Effect.acquireRelease(
      Effect.sync(() => Array.from({ length: 2_000 }, () => connect(port, "127.0.0.1").on("error", () => {}))),
      (all) => Effect.sync(() => all.forEach((socket) => socket.destroy()))
    )
    const connecting = () => sockets.filter((socket) => socket.connecting).length
    yield* until(() => connecting() < sockets.length)
    // a connection that was dropped is tried again after a second, in which nothing happens
    let [before, turns] = [sockets.length, 0]
    while (turns < 20) {
      yield* Effect.sleep("10 millis")
      const now = connecting()
      turns = now === before ? turns + 1 : 0
      before = now
    }
    assert.strictEqual(before, 0)
  }).pipe(Effect.scoped))

const untilClosed = (socket: Socket) => until(() => socket.resume().closed)

it.live("at the limit of connections the oldest without a key makes room, and one with a key stays", () =>
  Effect.gen(function*() {
    const { end, port } = yield* serveHeld({ maxConnections: 8, integratorOf: (key) => key })
    yield* end
    const ask = Effect.fnUntraced(function*(socket: Socket, key = "") {
      const text = received(socket)
      socket.write(`GET /at-once HTTP/1.1\r\nhost: x\r\n${key}\r\n`)
      yield* until(() => text().includes("/at-once"))
    })
    const keyed = yield* client(port)
    yield* ask(keyed, "x-api-key: one\r\n")
    const [first, ...others] = yield* Effect.forEach(Array.from({ length: 7 }), () => Effect.tap(client(port), ask))
    const newcomer = yield* client(port)
    yield* ask(newcomer)
    if (first !== undefined) yield* untilClosed(first)
    yield* Effect.forEach([keyed, newcomer, ...others], (socket) => ask(socket))
  }).pipe(Effect.scoped))

it.live("one integrator has a quarter of the connections", () =>
  Effect.gen(function*() {
    const { end, port } = yield* serveHeld({ maxConnections: 8, integratorOf: (key) => key })
    yield* end
    const request = "GET /at-once HTTP/1.1\r\nhost: x\r\nx-api-key: one\r\n\r\n"
    const sockets = yield* Effect.forEach(Array.from({ length: 2 }), () => client(port))
    for (const socket of sockets) {
      const text = received(socket)
      socket.write(request)
      yield* until(() => text().includes("/at-once"))
    }
    // beyond it one request is answered on each
    const third = yield* client(port)
    const text = received(third)
    third.write(request.repeat(2))
    yield* untilClosed(third)
    assert.strictEqual(text().split("/at-once").length, 2)
    assert.isFalse(sockets.some(({ destroyed }) => destroyed))
    // what one of them leaves is for another one
    sockets[0]?.destroy()
    const isKept = Effect.gen(function*() {
      const next = yield* client(port)
      const text = received(next)
      next.write(request)
      yield* until(() => text().includes("/at-once"))
      return !text().includes("connection: close")
    })
    assert.isTrue(yield* Effect.repeat(isKept, { until: (kept) => kept, times: 20 }))
  }).pipe(Effect.scoped))

/** A socket that does not read finds out by what it sends that it was closed. */
const untilOneIsClosed = (idle: ReadonlyArray<Socket>) =>
  until(() => {
    for (const socket of idle) if (socket.writable) socket.write("GET /at-once HTTP/1.1\r\nhost: x\r\n\r\n")
    return idle.some(({ closed }) => closed)
  })

it.live("while too much is unread, the connections with the most of it are closed, and others are not", () =>
  Effect.gen(function*() {
    const { end, port } = yield* serveHeld({ maxUnsentBytes: 4_000_000 })
    yield* end
    const readers = yield* Effect.forEach(Array.from({ length: 2 }), () => client(port))
    const texts = readers.map(received)
    const idlers = yield* Effect.forEach(Array.from({ length: 4 }), () => client(port))
    for (const idler of idlers) idler.pause().write("GET /large HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20))
    for (const reader of readers) reader.write("GET /at-once HTTP/1.1\r\nhost: x\r\n\r\n")
    yield* until(() => texts.every((text) => text().includes("/at-once")))
    yield* untilOneIsClosed(idlers)
    assert.isFalse(readers.some(({ closed }) => closed))
  }).pipe(Effect.scoped))

it.live("while too much is unread, connections without a key are closed before one of an integrator", () =>
  Effect.gen(function*() {
    const { end, port } = yield* serveHeld({ maxUnsentBytes: 5_000_000, integratorOf: (key) => key })
    yield* end
    const keyed = yield* client(port)
    keyed.pause().write("GET /larger HTTP/1.1\r\nhost: x\r\nx-api-key: one\r\n\r\n".repeat(10))
    const strangers = yield* Effect.forEach(Array.from({ length: 6 }), () => client(port))
    for (const stranger of strangers) stranger.pause().write("GET /large HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20))
    yield* untilOneIsClosed(strangers)
    keyed.resume()
    yield* until(() => keyed.bytesRead > 20_000_000)
  }).pipe(Effect.scoped))

it.live("newcomers that come at once each close another connection, so that the limit holds", () =>
  Effect.gen(function*() {
    const { end, port } = yield* serveHeld({ maxConnections: 8 })
    yield* end
    const held = yield* Effect.forEach(Array.from({ length: 8 }), () => client(port))
    for (const socket of held) socket.resume()
    const newcomers = yield* Effect.forEach(Array.from({ length: 6 }), () => client(port), { concurrency: 6 })
    for (const socket of newcomers) socket.resume()
    yield* until(() => held.filter(({ closed }) => closed).length === 6)
    yield* Effect.sleep("100 millis")
    assert.strictEqual([...held, ...newcomers].filter(({ closed }) => !closed).length, 8)
  }).pipe(Effect.scoped))

it.live("a server that cannot listen says why", () =>
  Effect.gen(function*() {
    const { port } = yield* serveHeld()
    // the second one is an address of documentation, which no machine has
    for (const [host, reason] of [["127.0.0.1", "EADDRINUSE"], ["192.0.2.1", "EADDRNOTAVAIL"]] as const) {
      const { message } = yield* Effect.flip(serveHeld({ host, port }))
      assert.include(message, `Cannot listen on ${host}:${port} (listen ${reason}: `)
    }
  }).pipe(Effect.scoped))
