import { listen } from "@card-rewards/testing/LoopbackServer"
import {
  certificate,
  certificateAuthority,
  otherCertificateAuthority,
  secureName
} from "@card-rewards/testing/WebhookReceiver"
import {
  type Answer,
  Connector,
  ConnectorError,
  type ConnectorOptions,
  type ConnectorReason,
  dnsResolver,
  isPublicAddress
} from "@card-rewards/worker/Connector"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Result } from "effect"
import { createServer as createHttpServer, type RequestListener } from "node:http"
import { createServer as createHttpsServer } from "node:https"
import { createServer as createTcpServer, isIP, type Socket } from "node:net"
import { createServer as createTlsServer } from "node:tls"
import { gzipSync } from "node:zlib"
import * as DnsAnswerer from "./DnsAnswerer.ts"

const httpsReceiver = (listener: RequestListener, options?: { readonly host: string }) =>
  listen(createHttpsServer(certificate(), listener), options)

/** Answers each connection with the bytes that `speak` writes, whatever was asked. */
const rawReceiver = (speak: (socket: Socket) => void) =>
  listen(createTlsServer(certificate(), (socket) => {
    socket.on("error", () => {})
    socket.once("data", () => speak(socket))
  }))

const resolveTo = (...addresses: ReadonlyArray<string>) => () =>
  Effect.succeed(addresses.map((address) => ({ address, family: isIP(address) === 6 ? 6 as const : 4 as const })))

/** The guard is up; 127.0.0.1 alone counts as public. */
const guarded: ConnectorOptions = {
  allowPrivateNetwork: false,
  resolve: resolveTo("127.0.0.1"),
  exemptAddresses: ["127.0.0.1"],
  certificateAuthorities: [certificateAuthority()]
}

const withConnector = (options: Partial<ConnectorOptions> = {}) =>
  Effect.provide(Connector.layer({ ...guarded, ...options }))

const post = (url: string, body = "{}", headers: Readonly<Record<string, string>> = {}) =>
  Effect.flatMap(Connector, (connector) =>
    Effect.callback<Answer, ConnectorError>((resume) => {
      const abort = connector.post({ url, body, headers }, (outcome) =>
        resume(outcome instanceof ConnectorError ? Effect.fail(outcome) : Effect.succeed(outcome)))
      return Effect.sync(abort)
    }))

const expectReason = (reason: ConnectorReason) => <A>(self: Effect.Effect<A, ConnectorError, Connector>) =>
  Effect.result(self).pipe(Effect.map((result) => {
    if (Result.isSuccess(result)) return assert.fail(`expected ${reason}, but there was an answer`)
    assert.instanceOf(result.failure, ConnectorError)
    assert.strictEqual(result.failure.reason, reason)
    assert.notMatch(result.failure.message, /\d|receiver|:/, "the message tells something")
  }))

/**
 * Waits until undici can use the connection of the last answer again: one whole iteration of the event loop after the
 * answer. The iteration in which the answer arrived is too early.
 */
const connectionReleased = Effect.callback<void>((resume) => {
  setImmediate(() => setImmediate(() => resume(Effect.void)))
})

const urlOf = ({ port }: { readonly port: number }, path = "/hook", host = secureName) =>
  `https://${host}:${port}${path}`

describe("a delivery", () => {
  it.live("is one POST of exactly the given bytes, and the status comes back", () =>
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

  it.live("sees the receiver's statuses change in mid-test, over one connection", () =>
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

  it.live.each([301, 302, 303, 307, 308])("does not follow a redirect: %d is a status", (status) =>
    Effect.gen(function*() {
      let requests = 0
      const receiver = yield* httpsReceiver((_request, response) => {
        requests++
        response.writeHead(status, { location: "/elsewhere" }).end("moved")
      })
      assert.deepStrictEqual(yield* post(urlOf(receiver)), { status, bodySnippet: "moved" })
      assert.strictEqual(requests, 1)
    }).pipe(withConnector(), Effect.scoped))

  it.live("reads retry-after in both forms, and nothing else as it", () =>
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

  it.live("goes over as many connections as there are requests at a time", () =>
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

describe("addresses", () => {
  const refused = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1",
    "127.255.255.254", "169.254.0.1",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.31.196.1",
    "192.52.193.1", "192.88.99.1",
    "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1",
    "255.255.255.254", "255.255.255.255", "::", "::1", "::2", "::127.0.0.1", "::7f00:1", "::8.8.8.8",
    "::ffff:127.0.0.1", "::ffff:7f00:1",
    "::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b::7f00:1", "64:ff9b:1::1",
    "64:ff9b:1:ffff::10.0.0.1", "100::1",
    "100:0:0:1::1", "2001::1", "2001:0:7f00:1::", "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1",
    "2001:20::1", "2001:30::1",
    "2001:1ff:ffff::1", "2001:db8::1", "2002::1", "2002:7f00:1::1", "2002:a00:1::1", "2002:808:808::1",
    "2620:4f:8000::1", "3fff::1",
    "4000::1", "5f00::1", "8000::1", "fc00::1", "fd00:ec2::254", "fdff::1", "fe80::1", "fe80::1%eth0", "febf::1",
    "fec0::1", "feff::1",
    "ff02::1", "ff0e::1", "2606:4700::1111%eth0", "010.0.0.1", "0177.0.0.1", "0x7f.0.0.1", "127.1", "2130706433",
    "localhost", "", " 8.8.8.8",
    "8.8.8.8 ", "8.8.8.8.8", "[::1]", "::ffff:0x7f000001"
  ]
  const accepted = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.0",
    "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
    "2001:200::1", "2001:4860:4860::8888", "2606:4700::1111", "2a00:1450:4001::1", "2003::1", "2400:cb00::1"
  ]

  it.each(refused)("%j is not public", (address) => assert.isFalse(isPublicAddress(address)))
  it.each(accepted)("%j is public", (address) => assert.isTrue(isPublicAddress(address)))

  it.live("every name with an address that is not public is refused, before any connection", () =>
    Effect.gen(function*() {
      for (const address of refused) {
        const among = [[], ["127.0.0.1"], ["8.8.8.8", "2606:4700::1111"]]
        for (const answers of among.flatMap((others) => [[address, ...others], [...others, address]])) {
          if (answers.every((answer) => answer === "127.0.0.1")) continue
          yield* post("https://hooks.acme.com/").pipe(
            expectReason("address_refused"),
            withConnector({
              resolve: resolveTo(...answers),
              exemptAddresses: address === "127.0.0.1" ? [] : ["127.0.0.1"]
            })
          )
        }
      }
    }))

  it.live("a name that changes between two resolutions gains nothing: the one there is is connected to", () =>
    Effect.gen(function*() {
      const inner = yield* httpsReceiver((_request, response) => response.end("secret"), { host: "127.0.0.2" })
      const outer = yield* listen(
        createHttpsServer(certificate(), (_request, response) =>
          response.setHeader("connection", "close").end("public"))
      )
      let resolutions = 0
      const rebinding = () => {
        resolutions++
        return resolveTo(resolutions % 2 === 1 ? "127.0.0.1" : "127.0.0.2")()
      }
      yield* Effect.gen(function*() {
        assert.strictEqual((yield* post(urlOf(outer))).bodySnippet, "public")
        assert.strictEqual(resolutions, 1)
        yield* outer.drained
        yield* post(urlOf(outer)).pipe(expectReason("address_refused"))
        yield* post(urlOf(outer))
        yield* outer.drained
        yield* post(urlOf(inner)).pipe(expectReason("address_refused"))
        assert.strictEqual(resolutions, 4)
      }).pipe(withConnector({ resolve: rebinding }))
      assert.strictEqual(inner.connections(), 0)
    }).pipe(Effect.scoped))

  it.live("a kept connection is to a checked address, and does not live on after its age", () =>
    Effect.gen(function*() {
      const receiver = yield* httpsReceiver((_request, response) => response.end())
      let address = "127.0.0.1"
      yield* Effect.gen(function*() {
        yield* post(urlOf(receiver))
        address = "10.0.0.1"
        yield* connectionReleased
        yield* post(urlOf(receiver))
        assert.strictEqual(receiver.connections(), 1)
        yield* Effect.sleep(3_100)
        yield* post(urlOf(receiver)).pipe(expectReason("address_refused"))
      }).pipe(withConnector({ resolve: () => resolveTo(address)(), connectionAgeMillis: 3_000 }))
      assert.strictEqual(receiver.connections(), 1)
    }).pipe(Effect.scoped))

  it.live("a second address is tried when the first does not answer", () =>
    Effect.gen(function*() {
      const receiver = yield* httpsReceiver((_request, response) => response.end())
      assert.strictEqual((yield* post(urlOf(receiver))).status, 200)
    }).pipe(
      withConnector({
        resolve: resolveTo("127.0.0.3", "127.0.0.1"),
        exemptAddresses: ["127.0.0.3", "127.0.0.1"]
      }),
      Effect.scoped
    ))

  it.live.each([
    "http://hooks.acme.com/", "https://127.0.0.1/", "https://[::1]/", "https://2130706433/", "https://0x7f.1/",
    "https://localhost/", "https://8.8.8.8/",
    "https://user@hooks.acme.com/", "https://hooks.acme.com/#a", "not a url"
  ])("a stored URL that breaks the rules is refused here too: %s", (url) =>
    post(url).pipe(expectReason("url_refused"), withConnector()))

  it.live("no address, or far too many, is a failure of the name", () =>
    Effect.gen(function*() {
      yield* post("https://hooks.acme.com/").pipe(expectReason("dns"), withConnector({ resolve: resolveTo() }))
      const many = Array.from({ length: 65 }, (_, index) => `8.8.8.${index}`)
      yield* post("https://hooks.acme.com/").pipe(expectReason("dns"), withConnector({ resolve: resolveTo(...many) }))
    }))

  it.live("a private network allows http, literals and local names", () =>
    Effect.gen(function*() {
      const receiver = yield* listen(createHttpServer((_request, response) => response.end("ok")))
      for (const host of ["localhost", "127.0.0.1", "2130706433"]) {
        assert.strictEqual((yield* post(`http://${host}:${receiver.port}/`)).bodySnippet, "ok")
      }
      const secure = yield* httpsReceiver((_request, response) => response.end("ok"))
      assert.strictEqual((yield* post(urlOf(secure, "/", "localhost"))).bodySnippet, "ok")
      yield* post(urlOf(secure, "/", "127.0.0.1")).pipe(expectReason("tls"))
    }).pipe(
      Effect.provide(Connector.layer({ allowPrivateNetwork: true, certificateAuthorities: [certificateAuthority()] })),
      Effect.scoped
    ))
})

describe("TLS", () => {
  const ok: RequestListener = (_request, response) => response.end()

  it.live("a certificate for another name is refused, again and again, and never sees the request", () =>
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

  it.live("a certificate of an unknown authority is refused", () =>
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

  it.live("a receiver without TLS, or with garbage for it, is refused", () =>
    Effect.gen(function*() {
      const plain = yield* listen(createHttpServer(ok))
      yield* post(urlOf(plain)).pipe(expectReason("tls"))
      const garbage = yield* listen(createTcpServer((socket) => socket.end("\0".repeat(64))))
      yield* post(urlOf(garbage)).pipe(expectReason("tls"))
    }).pipe(withConnector(), Effect.scoped))
})

describe("time and size", () => {
  /** Apart, so that no stall makes of the one the other. */
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

  it.live("a resolver that never answers is a connect_timeout", () =>
    post("https://hooks.acme.com/").pipe(
      expectReason("connect_timeout"),
      inLessThan(4_000),
      withConnector({ ...shortConnect, resolve: () => Effect.never })
    ))

  it.live("a receiver that accepts and never shakes hands is a connect_timeout, and is hung up on", () =>
    Effect.gen(function*() {
      const receiver = yield* listen(createTcpServer((socket) => socket.resume()))
      yield* post(urlOf(receiver)).pipe(expectReason("connect_timeout"), inLessThan(4_000))
      yield* receiver.drained
    }).pipe(withConnector(shortConnect), Effect.scoped))

  const dripping = (socket: Socket, head: string, drop: string) => {
    socket.write(head)
    const timer = setInterval(() => socket.write(drop), 10)
    socket.once("close", () => clearInterval(timer))
  }

  // each waits for two seconds
  describe.concurrent("after the handshake", () => {
    it.live("a half-open connection, which takes the request and is silent, is a timeout", () =>
      Effect.gen(function*() {
        const receiver = yield* rawReceiver(() => {})
        yield* post(urlOf(receiver)).pipe(expectReason("timeout"), inLessThan(10_000))
        yield* receiver.drained
      }).pipe(withConnector(shortInAll), Effect.scoped))

    it.live.each<readonly [string, string, string]>([
      ["headers drop by drop", "HTTP/1.1 200 OK\r\n", "x-a: b\r\n"],
      ["a status line drop by drop", "HTTP/1.1 200 O", "K"],
      ["announcements without an end", "", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"],
      ["a hundred continues", "", "HTTP/1.1 102 Processing\r\n\r\n"]
    ])("%s end at the time-out", ([, head, drop]) =>
      Effect.gen(function*() {
        const receiver = yield* rawReceiver((socket) => dripping(socket, head, drop))
        yield* post(urlOf(receiver)).pipe(expectReason("timeout"), inLessThan(10_000))
        yield* receiver.drained
      }).pipe(withConnector(shortInAll), Effect.scoped))

    it.live("a body drop by drop is cut at the time-out; the status counts", () =>
      Effect.gen(function*() {
        const head = "HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n"
        const receiver = yield* rawReceiver((socket) => dripping(socket, head, "x"))
        const answer = yield* post(urlOf(receiver)).pipe(inLessThan(10_000))
        assert.strictEqual(answer.status, 200)
        assert.match(answer.bodySnippet, /^x+$/)
        yield* receiver.drained
      }).pipe(withConnector(shortInAll), Effect.scoped))
  })

  it.live("of an endless body 4 KiB are read, and the connection is dropped", () =>
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

  it.live("a body of exactly 4 KiB leaves the connection usable; one byte more does not", () =>
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

  it.live("a snippet that is no UTF-8 or has NUL can still be stored", () =>
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

  it.live("an answer that breaks off after its status keeps the status", () =>
    Effect.gen(function*() {
      const receiver = yield* rawReceiver((socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart"))
      assert.deepStrictEqual(yield* post(urlOf(receiver)), { status: 200, bodySnippet: "part" })
    }).pipe(withConnector(), Effect.scoped))

  it.live("a closed port is connection_refused", () =>
    Effect.gen(function*() {
      const port = yield* Effect.scoped(Effect.map(listen(createTcpServer()), ({ port }) => port))
      yield* post(urlOf({ port })).pipe(expectReason("connection_refused"))
    }).pipe(withConnector()))
})

describe("life and death", () => {
  it.live("interruption aborts the request and closes its connection", () =>
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
        return [{ address: "127.0.0.1", family: 4 as const }]
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
    }).pipe(withConnector({ keepAliveMillis: 50 }), Effect.scoped), 10_000)

  it.live("beyond maxKeptConnections none is kept", () =>
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

  it.live("the end of the service closes everything, also what is being connected", () =>
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

  it.live("gives both families, or the one there is", () =>
    Effect.gen(function*() {
      for (const [a, aaaa, expected] of [
        [["8.8.8.8", "10.0.0.1"], [v6], ["8.8.8.8", "10.0.0.1", "2606:4700::1111"]],
        [["8.8.8.8"], [], ["8.8.8.8"]],
        [[], [v6], ["2606:4700::1111"]]
      ] as const) {
        const { server } = yield* answerer({ a, aaaa })
        const addresses = yield* dnsResolver({ servers: [server] })("hooks.acme.com")
        assert.deepStrictEqual(addresses.map(({ address }) => address), [...expected])
      }
    }).pipe(Effect.scoped))

  it.live("fails with dns when there is no address, or no answer", () =>
    Effect.gen(function*() {
      const empty = yield* answerer({ a: [], aaaa: [] })
      const silent = yield* answerer({ a: undefined, aaaa: undefined })
      for (const { server } of [empty, silent]) {
        const error = yield* Effect.flip(dnsResolver({ servers: [server], timeoutMillis: 50 })("hooks.acme.com"))
        assert.strictEqual(error.reason, "dns")
      }
    }).pipe(Effect.scoped))

  it.live("what it finds is checked like any other answer", () =>
    Effect.gen(function*() {
      const { server } = yield* answerer({ a: ["8.8.8.8"], aaaa: ["fd00:ec2::254"] })
      yield* post("https://hooks.acme.com/").pipe(
        expectReason("address_refused"),
        withConnector({ resolve: dnsResolver({ servers: [server] }) })
      )
    }).pipe(Effect.scoped))
})
