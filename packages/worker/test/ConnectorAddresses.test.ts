import { AdjustableClock } from "@card-rewards/testing/AdjustableClock"
import { listen } from "@card-rewards/testing/LoopbackServer"
import { certificate, certificateAuthority } from "@card-rewards/testing/WebhookReceiver"
import { Connector, isPublicAddress } from "@card-rewards/worker/Connector"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { once } from "node:events"
import { createServer as createHttpServer } from "node:http"
import { createServer as createHttpsServer } from "node:https"
import { connect } from "node:net"
import { Worker } from "node:worker_threads"
import { connectionReleased, expectReason, httpsReceiver, post, resolveTo, urlOf, withConnector } from "./Connecting.ts"

/**
 * The port of a receiver whose queue of connections is full until its thread goes on after 700 ms. The system then
 * completes further ones when their first packet is repeated, about a second after it.
 */
const slowReceiver = Effect.gen(function*() {
  const program = `
    const { parentPort } = require("node:worker_threads")
    const server = require("node:http").createServer((_request, response) => response.end("accepted"))
    server.listen({ host: "127.0.0.1", port: 0, backlog: 1 }, () => {
      parentPort.postMessage(server.address().port)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700)
    })`
  const worker = yield* Effect.acquireRelease(
    Effect.sync(() => new Worker(program, { eval: true })),
    (worker) => Effect.promise(() => worker.terminate())
  )
  const [port] = yield* Effect.promise(() => once(worker, "message"))
  for (let queued = 0; queued < 2; queued++) {
    const connected = Effect.promise(() => {
      const socket = connect(port, "127.0.0.1")
      return once(socket, "connect").then(() => socket)
    })
    yield* Effect.acquireRelease(connected, (socket) => Effect.sync(() => socket.destroy()))
  }
  return Number(port)
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

  it.live("refuses a name with an address that is not public, before any connection", () =>
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

  it.live("connects to the address that was checked, even if the name resolves to another one afterwards", () =>
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

  it.live("keeps connections to checked addresses, up to their maximum age", () =>
    Effect.gen(function*() {
      const receiver = yield* httpsReceiver((_request, response) => response.end())
      let address = "127.0.0.1"
      yield* Effect.gen(function*() {
        yield* post(urlOf(receiver))
        address = "10.0.0.1"
        yield* connectionReleased
        yield* post(urlOf(receiver))
        assert.strictEqual(receiver.connections(), 1)
        const { pass, setBack } = yield* AdjustableClock
        // its age goes by time that passes
        yield* setBack("1 hour")
        yield* connectionReleased
        yield* post(urlOf(receiver))
        assert.strictEqual(receiver.connections(), 1)
        yield* connectionReleased
        yield* pass("1 minute")
        yield* post(urlOf(receiver)).pipe(expectReason("address_refused"))
      }).pipe(withConnector({ resolve: () => resolveTo(address)() }))
      assert.strictEqual(receiver.connections(), 1)
    }).pipe(Effect.scoped, Effect.provide(AdjustableClock.layer)))

  it.live("tries the second address where the first does not answer", () =>
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

  it.live("waits for a first address that accepts after a second, although the name has a second one", () =>
    Effect.gen(function*() {
      const port = yield* slowReceiver
      assert.strictEqual((yield* post(`http://hooks.acme.com:${port}/`)).bodySnippet, "accepted")
    }).pipe(
      withConnector({ allowPrivateNetwork: true, resolve: resolveTo("127.0.0.1", "127.0.0.9") }),
      Effect.scoped
    ))

  it.live.each([
    "http://hooks.acme.com/", "https://127.0.0.1/", "https://[::1]/", "https://2130706433/", "https://0x7f.1/",
    "https://localhost/", "https://8.8.8.8/",
    "https://user@hooks.acme.com/", "https://hooks.acme.com/#a", "not a url"
  ])("refuses a stored URL that breaks the rules: %s", (url) =>
    post(url).pipe(expectReason("url_refused"), withConnector()))

  it.live("fails with dns where a name has no address or too many", () =>
    Effect.gen(function*() {
      yield* post("https://hooks.acme.com/").pipe(expectReason("dns"), withConnector({ resolve: resolveTo() }))
      const many = Array.from({ length: 65 }, (_, index) => `8.8.8.${index}`)
      yield* post("https://hooks.acme.com/").pipe(expectReason("dns"), withConnector({ resolve: resolveTo(...many) }))
    }))

  it.live("allows http, literal addresses and local names where private networks are allowed", () =>
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
