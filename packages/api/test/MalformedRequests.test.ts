import { maxShare } from "@card-rewards/core/Batcher/FairQueue"
import { untilTrue } from "@card-rewards/testing/Polling"
import { assert, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer } from "effect"
import { HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { channel } from "node:diagnostics_channel"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { maxHandled, maxWaitingBehindOthers } from "../src/Server/Connection.ts"
import { maxStartsPerTurn } from "../src/Server/RequestTurns.ts"
import * as Server from "../src/Server.ts"

/** Serves requests, on the port that it returns: `/held` until the end of the test, which `held` counts. */
const serve = Effect.gen(function*() {
  const state = { held: 0 }
  const end = yield* Deferred.make<void>()
  const answer = Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    if (request.url === "/held") {
      state.held++
      yield* Effect.ensuring(Effect.interruptible(Deferred.await(end)), Effect.sync(() => state.held--))
    }
    return HttpServerResponse.text(`${request.method} ${request.url}`)
  })
  const server = yield* Layer.build(Server.layer({ host: "127.0.0.1", port: 0 }))
  yield* HttpServer.serveEffect(answer).pipe(Effect.provideContext(server))
  // a server that stops does not read sockets with waiting requests, and so does not see their ends
  yield* Effect.addFinalizer(() => Deferred.succeed(end, undefined))
  const { address } = Context.get(server, HttpServer.HttpServer)
  return { port: "port" in address ? address.port : 0, state }
})

/** What Node's server publishes of each request that it makes, and of each response that is sent. */
const published = Effect.gen(function*() {
  const counts = { made: 0, madeAfterClose: 0, sentInOneTurn: 0 }
  let sent = 0
  const onStart = (message: unknown) => {
    const { socket } = message as { readonly socket: Socket }
    counts.made++
    if (socket.destroyed) counts.madeAfterClose++
  }
  const onFinish = () => {
    if (sent++ === 0) setImmediate(() => sent = 0)
    counts.sentInOneTurn = Math.max(counts.sentInOneTurn, sent)
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      channel("http.server.request.start").subscribe(onStart)
      channel("http.server.response.finish").subscribe(onFinish)
    }),
    () =>
      Effect.sync(() => {
        channel("http.server.request.start").unsubscribe(onStart)
        channel("http.server.response.finish").unsubscribe(onFinish)
      })
  )
  return counts
})

/** Sends the same text on so many connections at once, and gives what each received until its end or a pause. */
const flood = (port: number, connections: number, text: string) =>
  Effect.acquireUseRelease(
    Effect.promise(() =>
      Promise.all(Array.from({ length: connections }, async () => {
        const socket = connect(port, "127.0.0.1").setEncoding("latin1").on("error", () => {})
        await once(socket, "connect")
        return socket
      }))
    ),
    Effect.fnUntraced(function*(sockets) {
      const received = sockets.map((socket) => {
        const answers = { text: "", isClosed: false }
        socket.on("data", (chunk: string) => answers.text += chunk).on("close", () => answers.isClosed = true)
        socket.write(text)
        return answers
      })
      const total = () => received.reduce((sum, { isClosed, text }) => sum + text.length + (isClosed ? 1 : 0), 0)
      let [before, silentTurns] = [-1, 0]
      while (silentTurns < 30) {
        yield* Effect.sleep("10 millis")
        silentTurns = total() === before ? silentTurns + 1 : 0
        before = total()
      }
      return received
    }),
    (sockets) => Effect.sync(() => sockets.forEach((socket) => socket.destroy()))
  )

const held = "GET /held HTTP/1.1\r\nhost:\r\n\r\n"

/** So many of the same request as a read of a socket may have. */
const fill = (request: string) => request.repeat(65_536 / request.length)

const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d+)/gu)].map(([, status]) => status)

it.live("a request without a host is refused in its turn and in JSON, and is the last of its connection", () =>
  Effect.gen(function*() {
    const { port } = yield* serve
    const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`
    const [answers] = yield* flood(port, 1, `${get("/1")}${get("/2")}GET /3 HTTP/1.1\r\n\r\n${get("/4")}`)
    const { isClosed = false, text = "" } = answers ?? {}
    assert.deepStrictEqual(statuses(text), ["200", "200", "400"])
    assert.match(text, /GET \/1[^]+GET \/2[^]+400 Bad Request\r\nconnection: close\r\n/iu)
    assert.include(text, "content-type: application/json\r\n")
    const body = JSON.parse(text.slice(text.lastIndexOf("{")))
    assert.deepStrictEqual(body, { _tag: "InvalidRequest", part: "headers", message: "host: is missing" })
    assert.isTrue(isClosed)
  }).pipe(Effect.scoped))

it.live("a request with several hosts is refused, and is the last of its connection", () =>
  Effect.gen(function*() {
    const { port } = yield* serve
    for (const version of ["1.0", "1.1"]) {
      const request = `GET /1 HTTP/${version}\r\nhost: x\r\nhost: x\r\nconnection: keep-alive\r\n\r\n`
      const [answers] = yield* flood(port, 1, request.repeat(2))
      const { isClosed = false, text = "" } = answers ?? {}
      assert.deepStrictEqual(statuses(text), ["400"])
      assert.include(text, "host: is there several times")
      assert.isTrue(isClosed)
    }
  }).pipe(Effect.scoped))

it.live("of a read full of requests without a host the server makes the first one alone", () =>
  Effect.gen(function*() {
    const { port } = yield* serve
    const counts = yield* published
    const answers = yield* flood(port, 50, fill("GET / HTTP/1.1\r\n\r\n"))
    assert.deepStrictEqual(new Set(answers.map(({ text }) => statuses(text).join())), new Set(["400"]))
    assert.isTrue(answers.every(({ isClosed }) => isClosed))
    assert.strictEqual(counts.made, 50)
    assert.isAtMost(counts.sentInOneTurn, 2 * maxStartsPerTurn)
  }).pipe(Effect.scoped))

it.live("requests with an unknown expectation are refused in their turns", () =>
  Effect.gen(function*() {
    const { port } = yield* serve
    const counts = yield* published
    const request = "GET / HTTP/1.1\r\nhost:\r\nexpect: x\r\n\r\n"
    const [answers] = yield* flood(port, 1, fill(request))
    const refused = statuses(answers?.text ?? "")
    assert.deepStrictEqual(new Set(refused), new Set(["417"]))
    assert.isAbove(refused.length, 1_000)
    assert.isAtMost(counts.sentInOneTurn, 2 * maxStartsPerTurn)
  }).pipe(Effect.scoped))

it.live("no request is made of what a closed connection had sent", () =>
  Effect.gen(function*() {
    const { port } = yield* serve
    const counts = yield* published
    for (const request of [held, "GET /held HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"]) {
      const answers = yield* flood(port, 50, fill(request))
      // no more may wait of one client
      assert.isAbove(answers.filter(({ isClosed }) => isClosed).length, 25, request)
      assert.strictEqual(counts.madeAfterClose, 0, request)
    }
  }).pipe(Effect.scoped))

it.live("the handlers of a closed connection end, also where it had asked for an upgrade after that", () =>
  Effect.gen(function*() {
    const { port, state } = yield* serve
    // one after the other, so that each starts at once: 100 more of this client may wait
    const others = maxWaitingBehindOthers * maxShare / 1_000
    for (let count = 1; count <= others; count++) {
      const waiting = count < others ? 1_000 : 900
      yield* Effect.forkScoped(flood(port, 1, held.repeat(maxHandled + waiting)))
      yield* untilTrue(Effect.sync(() => state.held === count * maxHandled))
    }
    const upgrade = "GET /held HTTP/1.1\r\nhost:\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
    const [answers] = yield* flood(port, 1, `${held.repeat(maxHandled + 101)}${upgrade}`)
    assert.isTrue(answers?.isClosed)
    assert.strictEqual(state.held, others * maxHandled)
  }).pipe(Effect.scoped))

it.live("a client of HTTP/1.0 needs no host", () =>
  Effect.gen(function*() {
    const { port } = yield* serve
    const [answers] = yield* flood(port, 1, "GET /old HTTP/1.0\r\n\r\n")
    assert.deepStrictEqual(statuses(answers?.text ?? ""), ["200"])
    assert.include(answers?.text, "GET /old")
  }).pipe(Effect.scoped))
