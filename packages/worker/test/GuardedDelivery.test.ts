import { Deliveries } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { Unavailable } from "@card-rewards/domain/Errors"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { untilTrue } from "@card-rewards/testing/Polling"
import { certificateAuthority, WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { type ConnectorOptions, dnsResolver } from "@card-rewards/worker/Connector"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, References } from "effect"
import { endpoint, event, services, allDelivered } from "./Dispatching.ts"
import * as DnsAnswerer from "./DnsAnswerer.ts"

/**
 * The guard is up; of this machine's addresses 127.0.0.1 alone counts as public. Every attempt resolves anew, and asks
 * once: a second try of DNS would take the next attempt's answer.
 */
const guarded = (server: string): ConnectorOptions => ({
  allowPrivateNetwork: false,
  resolve: dnsResolver({ servers: () => [server], timeoutMillis: 20_000 }),
  exemptAddresses: ["127.0.0.1"],
  certificateAuthorities: [certificateAuthority()],
  connectionAgeMillis: 1
})

const dispatching = (server: string) => services({ connector: guarded(server) })
const retryDelays: RetryDelays = [20, ...Array.from({ length: 49 }, () => 20)]

/** How the attempts of the only delivery went. */
const attempts = Effect.gen(function*() {
  const { list } = yield* DeliveryLog
  const page = yield* list(IntegratorId.make("acme"), EndpointId.make("hook"), { limit: 1, cursor: undefined })
  return page.deliveries.flatMap(({ attempts }) => attempts.map(({ error, status }) => status ?? error))
})

const deliver = Effect.gen(function*() {
  yield* Layer.build(WebhookDispatcher.layer({ retryDelays }))
  yield* untilTrue(allDelivered)
})

it.live("over TLS, resolved by DNS: the statuses change in mid-test until one is 2xx", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make({ secure: true })
    const statuses = [500, 302, 404, 503, 204]
    hook.answer(() => statuses[hook.received.length - 1] ?? 200)
    const dns = yield* DnsAnswerer.make(() => ({ a: ["127.0.0.1"], aaaa: [] }))
    yield* Effect.gen(function*() {
      yield* endpoint("acme", `${hook.origin}/hook`)
      yield* event("acme")
      yield* deliver
      assert.deepStrictEqual(yield* attempts, statuses)
      assert.isAtLeast(dns.queries(), 1)
    }).pipe(Effect.scoped, Effect.provide(dispatching(dns.server)))
  }).pipe(Effect.scoped))

/** What a name may suddenly point to; each attempt gets another answer. */
const hostile: ReadonlyArray<DnsAnswerer.Records> = [
  { a: ["127.0.0.2"] },
  { a: ["10.0.0.1"] },
  { a: ["127.0.0.1", "10.0.0.1"] },
  { a: ["127.0.0.1", "169.254.169.254"] },
  { a: ["0.0.0.0"] },
  { a: ["100.64.0.1"] },
  { a: ["127.0.0.1"], aaaa: ["::1"] },
  { a: ["127.0.0.1"], aaaa: ["::ffff:127.0.0.1"] },
  { a: ["127.0.0.1"], aaaa: ["::ffff:8.8.8.8"] },
  { a: ["127.0.0.1"], aaaa: ["64:ff9b::7f00:1"] },
  { a: ["127.0.0.1"], aaaa: ["64:ff9b:1::1"] },
  { a: ["127.0.0.1"], aaaa: ["2002:7f00:1::"] },
  { a: ["127.0.0.1"], aaaa: ["2001:0:7f00:1::"] },
  { a: ["127.0.0.1"], aaaa: ["fd00:ec2::254"] },
  { a: ["127.0.0.1"], aaaa: ["fe80::1"] },
  { a: ["127.0.0.1"], aaaa: ["2001:db8::1"] },
  { a: ["127.0.0.1"], aaaa: ["::127.0.0.1"] },
  { aaaa: ["::"] },
  { a: ["127.0.0.1", "224.0.0.1"] },
  { a: ["127.0.0.1", "192.0.2.1", "198.51.100.1"] }
]

/** The breaker lets one attempt through every few seconds, so several names are rebound at the same time. */
const reboundAtOnce = 5

const rebind = Effect.fnUntraced(function*(records: ReadonlyArray<DnsAnswerer.Records>) {
  const hook = yield* WebhookReceiver.make({ secure: true })
  const inner = yield* WebhookReceiver.make({ secure: true, host: "127.0.0.2", port: hook.port })
  // the first answer is good and its attempt fails, then the name changes, and at last it is good again
  const dns = yield* DnsAnswerer.make((nth) => ({ a: [], aaaa: [], ...(records[nth - 1] ?? { a: ["127.0.0.1"] }) }))
  hook.answer(() => hook.received.length === 1 ? 500 : 200)
  yield* Effect.gen(function*() {
    yield* endpoint("acme", `${hook.origin}/hook`)
    yield* event("acme")
    yield* deliver
    assert.deepStrictEqual(yield* attempts, [500, ...records.map(() => "address_refused"), 200])
    assert.strictEqual(inner.received.length, 0)
    assert.strictEqual(hook.received.length, 2)
    assert.strictEqual(dns.queries(), records.length + 2)
  }).pipe(Effect.scoped, Effect.provide(dispatching(dns.server), { local: true }))
}, Effect.scoped)

it.live(`a name rebound between resolutions reaches nothing inside, in ${hostile.length} ways`, () => {
  const each = Math.ceil(hostile.length / reboundAtOnce)
  const parts = Array.from({ length: reboundAtOnce }, (_, part) => hostile.slice(part * each, (part + 1) * each))
  return Effect.forEach(parts, rebind, { concurrency: reboundAtOnce, discard: true })
})

it.live("a receiver whose certificate is for another name gets no request", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make({ secure: true })
    const dns = yield* DnsAnswerer.make(() => ({ a: ["127.0.0.1"], aaaa: [] }))
    yield* Effect.gen(function*() {
      yield* endpoint("acme", `https://other.card-rewards.example:${hook.port}/hook`)
      yield* event("acme")
      yield* Layer.build(WebhookDispatcher.layer({ retryDelays }))
      yield* untilTrue(Effect.map(attempts, (made) => made.length >= 2))
      assert.deepStrictEqual([...new Set(yield* attempts)], ["tls"])
      assert.strictEqual(hook.received.length, 0)
    }).pipe(Effect.scoped, Effect.provide(dispatching(dns.server)))
  }).pipe(Effect.scoped))

it.live("a name without an address is a failed attempt and is tried again", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make({ secure: true })
    const dns = yield* DnsAnswerer.make((nth) => ({ a: nth === 0 ? [] : ["127.0.0.1"], aaaa: [] }))
    yield* Effect.gen(function*() {
      yield* endpoint("acme", `${hook.origin}/hook`)
      yield* event("acme")
      yield* deliver
      assert.deepStrictEqual(yield* attempts, ["dns", 200])
    }).pipe(Effect.scoped, Effect.provide(dispatching(dns.server)))
  }).pipe(Effect.scoped))

it.live("an attempt that ends after its lease changes nothing; the next holder delivers the event", () =>
  Effect.gen(function*() {
    const hook = yield* WebhookReceiver.make()
    const held: Array<() => void> = []
    hook.hold((respond) => held.push(respond))
    yield* Effect.gen(function*() {
      yield* endpoint("acme", `${hook.origin}/hook`)
      yield* event("acme")
      const received = (count: number) => untilTrue(Effect.sync(() => hook.received.length >= count))
      const deliveries = yield* Deliveries
      // a process that can renew nothing
      const renew = () => Effect.fail(new Unavailable({ message: "away" }))
      const stopped = Layer.succeed(Deliveries, { ...deliveries, renew })
      const options = { retryDelays, leaseMillis: 600 }
      yield* Layer.build(Layer.fresh(WebhookDispatcher.layer(options)).pipe(Layer.provide(stopped)))
      yield* received(1)
      yield* Layer.build(Layer.fresh(WebhookDispatcher.layer(options)))
      yield* received(2)
      hook.hold(undefined)
      for (const respond of held) respond()
      yield* untilTrue(allDelivered)
      assert.deepStrictEqual(yield* attempts, [200])
      assert.deepStrictEqual(hook.received.slice(0, 2).map(({ headers }) => headers["x-service-attempt"]), ["1", "1"])
    }).pipe(Effect.scoped, Effect.provide(services()), Effect.provideService(References.MinimumLogLevel, "None"))
  }).pipe(Effect.scoped))
