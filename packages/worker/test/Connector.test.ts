import { listen } from "@card-rewards/testing/LoopbackServer"
import { otherCertificateAuthority, secureName } from "@card-rewards/testing/WebhookReceiver"
import { Connector, dnsResolver } from "@card-rewards/worker/Connector"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Result } from "effect"
import { TestClock } from "effect/testing"
import { createServer as createHttpServer, type RequestListener } from "node:http"
import { createServer as createTcpServer } from "node:net"
import { connectionReleased, expectReason, httpsReceiver, post, resolveTo, urlOf, withConnector } from "./Connecting.ts"
import * as DnsAnswerer from "./DnsAnswerer.ts"

describe("a request of the connector", () => {
  it.live("sends one POST with exactly the given bytes, and returns the status", () =>
    Effect.gen(function*() {
      const requests: Array<unknown> = []
      const receiver = yield* httpsReceiver((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const { host, "accept-encoding": encoding, "content-type": type, "content-length": length } = request.headers
          requests.push([request.method, request.url, host, encoding, type, length, Buffer.concat(chunks).toString()])
          response.writeHead(201).end("danke ✓")
        })
      })
      const body = "{\"text\":\"grüß\"}"
      const answer = yield* post(urlOf(receiver, "/a/b?c=d%20e"), body, { "content-type": "application/json" })
      assert.deepStrictEqual(answer, { status: 201, bodySnippet: "danke ✓" })
      assert.deepStrictEqual(requests, [
        [
          "POST",
          "/a/b?c=d%20e",
          `${secureName}:${receiver.port}`,
          "identity",
          "application/json",
          String(Buffer.byteLength(body)),
          body
        ]
      ])
    }).pipe(withConnector(), Effect.scoped))

  it.live("returns each status of a receiver whose answers change, over one connection", () =>
    Effect.gen(function*() {
      const statuses = [500, 503, 429, 404, 204, 200, 200]
      const receiver = yield* httpsReceiver((request, response) => {
        request.resume()
        response.writeHead(statuses.shift() ?? 500).end()
      })
      const postAndWait = Effect.tap(post(urlOf(receiver)), connectionReleased)
      const answers = yield* Effect.replicateEffect(postAndWait, 7)
      assert.deepStrictEqual(answers.map(({ status }) => status), [500, 503, 429, 404, 204, 200, 200])
      assert.strictEqual(receiver.connections(), 1)
    }).pipe(withConnector(), Effect.scoped))

  it.live.each([301, 302, 303, 307, 308])("returns the status %d of a redirect, without following it", (status) =>
    Effect.gen(function*() {
      let requests = 0
      const receiver = yield* httpsReceiver((_request, response) => {
        requests++
        response.writeHead(status, { location: "/elsewhere" }).end("moved")
      })
      assert.deepStrictEqual(yield* post(urlOf(receiver)), { status, bodySnippet: "moved" })
      assert.strictEqual(requests, 1)
    }).pipe(withConnector(), Effect.scoped))

  it.live("returns the status that follows an unexpected `100 Continue`, over one connection", () =>
    Effect.gen(function*() {
      const receiver = yield* httpsReceiver((request, response) => {
        response.writeContinue()
        request.resume().on("end", () => response.writeHead(202).end("ok"))
      })
      const postAndWait = Effect.tap(post(urlOf(receiver)), connectionReleased)
      const answer = { status: 202, bodySnippet: "ok" }
      assert.deepStrictEqual(yield* Effect.replicateEffect(postAndWait, 2), [answer, answer])
      assert.strictEqual(receiver.connections(), 1)
    }).pipe(withConnector(), Effect.scoped))

  it.live("reads both forms of retry-after, and ignores other values", () =>
    Effect.gen(function*() {
      const begin = Date.now()
      const soon = new Date(begin + 60_000).toUTCString()
      const past = "Wed, 21 Oct 2015 07:28:00 GMT"
      const values = ["120", "0", soon, past, "-1", "1.5", "soon", "9999999999999", "2030-01-01"]
      const receiver = yield* httpsReceiver((_request, response) => {
        response.writeHead(429, { "retry-after": values.shift() ?? "" }).end()
      })
      const answers = yield* Effect.forEach(Array.from({ length: 9 }), () => post(urlOf(receiver)))
      const [, , date] = answers.map(({ retryAfterSeconds }) => retryAfterSeconds)
      const goneSeconds = (Date.now() - begin) / 1_000
      assert.isTrue(date !== undefined && date >= 58 - goneSeconds && date <= 60)
      assert.deepStrictEqual(
        answers.map(({ retryAfterSeconds }) => retryAfterSeconds),
        [120, 0, date, 0, undefined, undefined, undefined, undefined, undefined]
      )
    }).pipe(withConnector(), Effect.scoped))

  it.live("uses as many connections as requests are in flight", () =>
    Effect.gen(function*() {
      const all = yield* Deferred.make<void>()
      const held: Array<() => void> = []
      const receiver = yield* httpsReceiver((request, response) => {
        request.resume()
        held.push(() => response.end())
        if (held.length === 16) Effect.runFork(Deferred.succeed(all, undefined))
      })
      const fibers = yield* Effect.forEach(Array.from({ length: 16 }), () => Effect.forkChild(post(urlOf(receiver))))
      yield* Deferred.await(all)
      for (const release of held) release()
      yield* Effect.forEach(fibers, Fiber.join)
      assert.strictEqual(receiver.connections(), 16)
    }).pipe(withConnector(), Effect.scoped))
})

describe("TLS", () => {
  const ok: RequestListener = (_request, response) => response.end()

  it.live("refuses a certificate for another name each time, without sending the request", () =>
    Effect.gen(function*() {
      let requests = 0
      const receiver = yield* httpsReceiver((_request, response) => {
        requests++
        response.end()
      })
      for (let attempt = 0; attempt < 3; attempt++) {
        yield* post(urlOf(receiver, "/", "other.card-rewards.example")).pipe(expectReason("tls"))
      }
      assert.strictEqual(requests, 0)
      assert.strictEqual((yield* post(urlOf(receiver))).status, 200)
    }).pipe(withConnector(), Effect.scoped))

  it.live("refuses a certificate of an unknown authority", () =>
    Effect.gen(function*() {
      const receiver = yield* httpsReceiver(ok)
      yield* post(urlOf(receiver)).pipe(
        expectReason("tls"),
        withConnector({ certificateAuthorities: [otherCertificateAuthority()] })
      )
      yield* post(urlOf(receiver)).pipe(
        expectReason("tls"),
        Effect.provide(Connector.layer({ allowPrivateNetwork: true, resolve: resolveTo("127.0.0.1") }))
      )
    }).pipe(Effect.scoped))

  it.live("refuses a receiver that does not speak TLS", () =>
    Effect.gen(function*() {
      const plain = yield* listen(createHttpServer(ok))
      yield* post(urlOf(plain)).pipe(expectReason("tls"))
      const garbage = yield* listen(createTcpServer((socket) => socket.end("\0".repeat(64))))
      yield* post(urlOf(garbage)).pipe(expectReason("tls"))
    }).pipe(withConnector(), Effect.scoped))
})

describe("the end of a connection", () => {
  it.live("an interrupted request is aborted, and its connection closed", () =>
    Effect.gen(function*() {
      const arrived = yield* Deferred.make<void>()
      const receiver = yield* httpsReceiver(() => Effect.runFork(Deferred.succeed(arrived, undefined)))
      const fiber = yield* Effect.forkChild(post(urlOf(receiver)))
      yield* Deferred.await(arrived)
      yield* Fiber.interrupt(fiber)
      yield* receiver.drained
    }).pipe(withConnector(), Effect.scoped))

  it.live("a request interrupted while its connection is being made is never sent", () =>
    Effect.gen(function*() {
      let requests = 0
      const receiver = yield* httpsReceiver((_request, response) => {
        requests++
        response.end()
      })
      const resolving = yield* Deferred.make<void>()
      const answer = yield* Deferred.make<void>()
      const resolve = Effect.fnUntraced(function*() {
        yield* Deferred.succeed(resolving, undefined)
        yield* Deferred.await(answer)
        return ["127.0.0.1"]
      })
      yield* Effect.gen(function*() {
        const fiber = yield* Effect.forkChild(post(urlOf(receiver, "/never")))
        yield* Deferred.await(resolving)
        yield* Fiber.interrupt(fiber)
        yield* Deferred.succeed(answer, undefined)
        yield* post(urlOf(receiver))
        assert.strictEqual(requests, 1)
      }).pipe(withConnector({ resolve }))
    }).pipe(Effect.scoped))

  it.live("an unused connection is closed after keepAliveMillis", () =>
    Effect.gen(function*() {
      const receiver = yield* httpsReceiver((_request, response) =>
        response.setHeader("keep-alive", "timeout=600").end())
      yield* post(urlOf(receiver))
      assert.strictEqual(receiver.open(), 1)
      yield* receiver.drained
    }).pipe(withConnector({ keepAliveMillis: 50 }), Effect.scoped))

  it.live("no connection is kept beyond maxKeptConnections", () =>
    Effect.gen(function*() {
      const [first, second] = yield* Effect.all([
        httpsReceiver((_request, response) => response.end()),
        httpsReceiver((_request, response) => response.end())
      ])
      yield* post(urlOf(first))
      yield* post(urlOf(second))
      yield* second.drained
      assert.strictEqual(first.open(), 1)
    }).pipe(withConnector({ maxKeptConnections: 1, keepAliveMillis: 60_000 }), Effect.scoped))

  it.live("the end of the service closes all connections, those being made too", () =>
    Effect.gen(function*() {
      const idle = yield* httpsReceiver((_request, response) => response.end())
      const silent = yield* listen(createTcpServer((socket) => socket.resume()))
      const waiting = yield* Effect.gen(function*() {
        yield* post(urlOf(idle))
        const fiber = yield* Effect.forkDetach(Effect.result(post(urlOf(silent))))
        while (silent.open() === 0) yield* Effect.yieldNow
        return fiber
      }).pipe(withConnector())
      yield* idle.drained
      yield* silent.drained
      const result = yield* Fiber.join(waiting)
      assert.isTrue(Result.isFailure(result) && result.failure.reason === "closed")
    }).pipe(Effect.scoped))
})

describe("dnsResolver", () => {
  const answerer = (records: DnsAnswerer.Records) => DnsAnswerer.make(() => records)
  const v6 = "2606:4700:0000:0000:0000:0000:0000:1111"

  it.live("returns addresses of both families, or of the one that exists", () =>
    Effect.gen(function*() {
      for (const [a, aaaa, expected] of [
        [["8.8.8.8", "10.0.0.1"], [v6], ["8.8.8.8", "10.0.0.1", "2606:4700::1111"]],
        [["8.8.8.8"], [], ["8.8.8.8"]],
        [[], [v6], ["2606:4700::1111"]]
      ] as const) {
        const { server } = yield* answerer({ a, aaaa })
        const addresses = yield* dnsResolver({ servers: () => [server] })("hooks.acme.com")
        assert.deepStrictEqual(addresses, [...expected])
      }
    }).pipe(Effect.scoped))

  it.live("fails with dns where there is no address or no answer", () =>
    Effect.gen(function*() {
      const empty = yield* answerer({ a: [], aaaa: [] })
      const silent = yield* answerer({ a: undefined, aaaa: undefined })
      for (const { server } of [empty, silent]) {
        const error = yield* Effect.flip(dnsResolver({ servers: () => [server], timeoutMillis: 50 })("hooks.acme.com"))
        assert.strictEqual(error.reason, "dns")
      }
    }).pipe(Effect.scoped))

  it.effect("asks other servers once the system has others, within a minute", () =>
    Effect.gen(function*() {
      const [first, second] = yield* Effect.all([
        answerer({ a: ["8.8.8.8"], aaaa: [] }),
        answerer({ a: ["8.8.4.4"], aaaa: [] })
      ])
      let server = first.server
      const resolve = dnsResolver({ servers: () => [server] })
      const addresses = resolve("hooks.acme.com")
      assert.deepStrictEqual(yield* addresses, ["8.8.8.8"])
      server = second.server
      yield* TestClock.adjust(59_999)
      assert.deepStrictEqual(yield* addresses, ["8.8.8.8"])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* addresses, ["8.8.4.4"])
    }).pipe(Effect.scoped))

  it.live("a name server that never answers for AAAA leaves time to connect", () =>
    Effect.gen(function*() {
      const { server } = yield* answerer({ a: ["127.0.0.1"], aaaa: undefined })
      const receiver = yield* httpsReceiver((_request, response) => response.end("ok"))
      const resolve = dnsResolver({ servers: () => [server] })
      const answer = yield* post(urlOf(receiver)).pipe(withConnector({ resolve }))
      assert.strictEqual(answer.bodySnippet, "ok")
    }).pipe(Effect.scoped))

  it.live("resolves to addresses that are checked like any other", () =>
    Effect.gen(function*() {
      const { server } = yield* answerer({ a: ["8.8.8.8"], aaaa: ["fd00:ec2::254"] })
      yield* post("https://hooks.acme.com/").pipe(
        expectReason("address_refused"),
        withConnector({ resolve: dnsResolver({ servers: () => [server] }) })
      )
    }).pipe(Effect.scoped))
})
