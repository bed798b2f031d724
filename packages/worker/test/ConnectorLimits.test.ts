import { listen } from "@card-rewards/testing/LoopbackServer"
import { type ConnectorReason } from "@card-rewards/worker/Connector"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { createServer as createTcpServer, type Socket } from "node:net"
import { gzipSync } from "node:zlib"
import {
  connectionReleased,
  expectReason,
  httpsReceiver,
  post,
  rawReceiver,
  urlOf,
  withConnector
} from "./Connecting.ts"

describe("time and size", () => {
  /** The limits are far apart, so that a stall of the machine does not turn a timeout into the other one. */
  const shortConnect = { connectTimeoutMillis: 200 }
  const shortInAll = { connectTimeoutMillis: 5_000, totalTimeoutMillis: 2_000 }
  /**
   * Fails a request that takes longer. The limits leave room for a machine that stalls, and are below the default
   * timeouts.
   */
  const inLessThan = (millis: number) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
    Effect.timed(self).pipe(Effect.map(([duration, value]) => {
      assert.isBelow(Duration.toMillis(duration), millis)
      return value
    }))

  it.live("a resolver that never answers causes connect_timeout", () =>
    post("https://hooks.acme.com/").pipe(
      expectReason("connect_timeout"),
      inLessThan(4_000),
      withConnector({ ...shortConnect, resolve: () => Effect.never })
    ))

  it.live("a receiver that never answers the TLS handshake causes connect_timeout, and its connection is closed", () =>
    Effect.gen(function*() {
      const receiver = yield* listen(createTcpServer((socket) => socket.resume()))
      yield* post(urlOf(receiver)).pipe(expectReason("connect_timeout"), inLessThan(4_000))
      yield* receiver.drained
    }).pipe(withConnector(shortConnect), Effect.scoped))

  const dripping = (socket: Socket, head: string, drop: string, pauseMillis = 10) => {
    socket.write(head)
    const timer = setInterval(() => socket.write(drop), pauseMillis)
    socket.once("close", () => clearInterval(timer))
  }

  const flooding = (socket: Socket, head: string, fill: string) => {
    socket.write(head)
    const more = () => {
      while (!socket.destroyed && socket.write(fill));
    }
    socket.on("drain", more)
    more()
  }

  // each test lasts two seconds
  describe.concurrent("after the handshake", () => {
    it.live("a receiver that reads the request and never answers causes timeout", () =>
      Effect.gen(function*() {
        const receiver = yield* rawReceiver(() => {})
        yield* post(urlOf(receiver)).pipe(expectReason("timeout"), inLessThan(10_000))
        yield* receiver.drained
      }).pipe(withConnector(shortInAll), Effect.scoped))

    it.live.each<readonly [name: string, head: string, drop: string, pauseMillis?: number]>([
      ["headers that arrive byte by byte", "HTTP/1.1 200 OK\r\n", "x-a: b\r\n"],
      ["a status line that arrives byte by byte", "HTTP/1.1 200 O", "K"],
      ["interim responses now and then", "", "HTTP/1.1 102 Processing\r\n\r\n", 200]
    ])("%s end at the timeout", ([, head, drop, pauseMillis]) =>
      Effect.gen(function*() {
        const receiver = yield* rawReceiver((socket) => dripping(socket, head, drop, pauseMillis))
        yield* post(urlOf(receiver)).pipe(expectReason("timeout"), inLessThan(10_000))
        yield* receiver.drained
      }).pipe(withConnector(shortInAll), Effect.scoped))

    it.live("a body that arrives byte by byte is cut at the timeout, and the status is returned", () =>
      Effect.gen(function*() {
        const head = "HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n"
        const receiver = yield* rawReceiver((socket) => dripping(socket, head, "x"))
        const answer = yield* post(urlOf(receiver)).pipe(inLessThan(10_000))
        assert.strictEqual(answer.status, 200)
        assert.match(answer.bodySnippet, /^x+$/)
        yield* receiver.drained
      }).pipe(withConnector(shortInAll), Effect.scoped))
  })

  it.live.each<readonly [string, string]>([
    ["early hints", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"],
    ["102 responses", "HTTP/1.1 102 Processing\r\n\r\n"],
    ["100 responses", "HTTP/1.1 100 Continue\r\n\r\n"]
  ])("a few %s come before the answer; without end, and without a pause, they are no HTTP", ([, interim]) =>
    Effect.gen(function*() {
      const few = yield* rawReceiver((socket) => socket.write(`${interim.repeat(16)}HTTP/1.1 204 No Content\r\n\r\n`))
      assert.strictEqual((yield* post(urlOf(few))).status, 204)
      const many = yield* rawReceiver((socket) => socket.write(`${interim.repeat(17)}HTTP/1.1 204 No Content\r\n\r\n`))
      yield* post(urlOf(many)).pipe(expectReason("protocol"))
      const flood = yield* rawReceiver((socket) => flooding(socket, "", interim.repeat(1_000)))
      yield* post(urlOf(flood)).pipe(expectReason("protocol"), inLessThan(5_000))
      yield* flood.drained
    }).pipe(withConnector(), Effect.scoped))

  it.live.each<readonly [name: string, head: string, fill: string]>([
    ["empty lines before the status", "", "\r\n"],
    ["a reason phrase", "HTTP/1.1 200 O", "K"],
    ["spaces before the value of a header", "HTTP/1.1 200 OK\r\nx:", " "],
    ["zeros of the size of a chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "0"],
    ["an extension of a chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=", "b"]
  ])("%s without end: fails with protocol, even after a status, and is closed", ([, head, fill]) =>
    Effect.gen(function*() {
      const receiver = yield* rawReceiver((socket) => flooding(socket, head, fill.repeat(30_000)))
      yield* post(urlOf(receiver)).pipe(expectReason("protocol"), inLessThan(4_000))
      yield* receiver.drained
    }).pipe(withConnector(), Effect.scoped))

  it.live("an endless body is read up to 4 KiB, and its connection closed", () =>
    Effect.gen(function*() {
      const receiver = yield* httpsReceiver((request, response) => {
        request.resume()
        response.writeHead(500)
        const more = () => {
          if (!response.destroyed && response.write("y".repeat(1000))) setImmediate(more)
          else response.once("drain", more)
        }
        more()
      })
      const answer = yield* post(urlOf(receiver)).pipe(inLessThan(10_000))
      assert.deepStrictEqual(answer, { status: 500, bodySnippet: "y".repeat(4096) })
      yield* receiver.drained
    }).pipe(withConnector(), Effect.scoped))

  it.live("a gzip bomb is not inflated", () =>
    Effect.gen(function*() {
      const bomb = gzipSync(Buffer.alloc(50_000_000))
      const receiver = yield* httpsReceiver((_request, response) =>
        response.writeHead(200, { "content-encoding": "gzip" }).end(bomb))
      const answer = yield* post(urlOf(receiver))
      assert.strictEqual(answer.status, 200)
      assert.isAtMost(answer.bodySnippet.length, 4096)
      assert.isTrue(answer.bodySnippet.startsWith("\u001f"))
      yield* receiver.drained
    }).pipe(withConnector(), Effect.scoped))

  it.live("a connection is kept after a body of 4 KiB, and closed after one of 4 KiB and a byte", () =>
    Effect.gen(function*() {
      let length = 4096
      const receiver = yield* httpsReceiver((_request, response) => response.end("z".repeat(length)))
      assert.strictEqual((yield* post(urlOf(receiver))).bodySnippet.length, 4096)
      yield* connectionReleased
      yield* post(urlOf(receiver))
      yield* connectionReleased
      assert.strictEqual(receiver.connections(), 1)
      length++
      assert.strictEqual((yield* post(urlOf(receiver))).bodySnippet.length, 4096)
      yield* receiver.drained
    }).pipe(withConnector(), Effect.scoped))

  it.live("a snippet with NUL or bytes that are not UTF-8 can be stored", () =>
    Effect.gen(function*() {
      const receiver = yield* httpsReceiver((_request, response) => response.end(Buffer.from([0x61, 0xff, 0x00, 0xc3])))
      assert.strictEqual((yield* post(urlOf(receiver))).bodySnippet, "a\ufffd\ufffd\ufffd")
    }).pipe(withConnector(), Effect.scoped))

  it.live.each<readonly [string, string, ConnectorReason]>([
    ["no HTTP at all", "hello\r\n\r\n", "protocol"],
    ["headers over 16 KiB", `HTTP/1.1 200 OK\r\nx: ${"a".repeat(20_000)}\r\n\r\n`, "protocol"],
    [
      "a switch of protocols",
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
      "reset"
    ],
    ["silence and the end", "", "reset"]
  ])("%s is a failure", ([, bytes, reason]) =>
    Effect.gen(function*() {
      const receiver = yield* rawReceiver((socket) => socket.end(bytes))
      yield* post(urlOf(receiver)).pipe(expectReason(reason), inLessThan(10_000))
    }).pipe(withConnector(), Effect.scoped))

  it.live("an answer that ends in the middle of its body has its status", () =>
    Effect.gen(function*() {
      const receiver = yield* rawReceiver((socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart"))
      assert.deepStrictEqual(yield* post(urlOf(receiver)), { status: 200, bodySnippet: "part" })
    }).pipe(withConnector(), Effect.scoped))

  it.live("a closed port causes connection_refused", () =>
    Effect.gen(function*() {
      const port = yield* Effect.scoped(Effect.map(listen(createTcpServer()), ({ port }) => port))
      yield* post(urlOf({ port })).pipe(expectReason("connection_refused"))
    }).pipe(withConnector()))
})
