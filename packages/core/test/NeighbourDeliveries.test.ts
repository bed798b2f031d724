import { Deliveries, type DueDelivery, type Leased } from "@card-rewards/core/Deliveries"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Integrators } from "@card-rewards/core/Integrators"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, IntegratorId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { leaseOf, readOf, recordOf } from "./Consuming.ts"
import { liveLayer } from "./TestLayer.ts"

const services = Layer.merge(DeliveryLog.layer, Deliveries.layer).pipe(
  Layer.provideMerge(WebhookEndpoints.layer({ allowPrivateNetwork: true })),
  Layer.provideMerge(liveLayer)
)

const id = EndpointId.make("hook")
let made = 0

/** An integrator with an endpoint and three events, whose numbers are 1 to 3 as those of each other one. */
const setUp = Effect.gen(function*() {
  const integratorId = IntegratorId.make(`neighbour-${made++}`)
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* WebhookEndpoints).create(integratorId, { id, url: "http://127.0.0.1:9/" })
  const { ping } = yield* DeliveryLog
  const eventIds = yield* Effect.all([1, 2, 3].map(() => ping(integratorId, id)))
  return { integratorId, eventIds }
})

type Neighbour = Effect.Success<typeof setUp>

/** The deliveries, newest first, each as its event's number, its state and its statuses. */
const listed = Effect.fnUntraced(function*({ eventIds, integratorId }: Neighbour) {
  const { list } = yield* DeliveryLog
  const { deliveries } = yield* list(integratorId, id, { limit: 10, cursor: undefined })
  return deliveries.map(({ attempts, eventId, state }) =>
    [eventIds.indexOf(eventId) + 1, state, ...attempts.map(({ status }) => status)].join(" "))
})

const redeliver = ({ eventIds, integratorId }: Neighbour, event: number) =>
  Effect.flatMap(DeliveryLog, ({ redeliver }) => redeliver(integratorId, id, eventIds[event - 1] ?? ""))

/** Records attempts on some events; the cursor stays before all of them, as while an earlier one is in flight. */
const attempt = Effect.fnUntraced(function*(lease: Leased, statuses: Readonly<Record<number, number>>) {
  const { events } = yield* readOf(lease)
  for (const delivery of events) {
    const status = statuses[Number(delivery.event)]
    if (status !== undefined) yield* recordOf(lease, [delivery], status, { cursor: 0n })
  }
})

/** Leases the endpoint after all leases of now have ended. */
const leaseLater = ({ integratorId }: Neighbour) => leaseOf(integratorId, 60_000)

/** Delivers all events, then starts a replay of all; returns its number of events, and what its holder is to send. */
const replay = Effect.fnUntraced(function*({ integratorId }: Neighbour, lease: Leased) {
  yield* recordOf(lease, (yield* readOf(lease)).events, 200)
  const { startReplay } = yield* DeliveryLog
  const { events } = yield* startReplay(integratorId, id, { from: instant(0), kinds: ["webhook.ping"] })
  const { read } = yield* Deliveries
  const request = { ...lease, after: 3n, events: 0, retries: 0, replay: noneRead, maxBytes: 1_000_000 }
  const [reading] = yield* read([request], yield* Clock.currentTimeMillis)
  return { events, sent: reading?.replay?.events ?? [] }
})

const noneRead = { round: null, after: null, events: 32 }

const numbersOf = (deliveries: ReadonlyArray<DueDelivery>) => deliveries.map(({ event }) => Number(event))

layer(services, { excludeTestServices: true })("of two integrators whose events have the same numbers", (it) => {
  it.effect("each one's deliveries have its own states and attempts, and are repeated by these", () =>
    Effect.gen(function*() {
      const [own, other] = [yield* setUp, yield* setUp]
      yield* attempt(yield* leaseOf(other.integratorId), { 1: 200, 2: 500 })
      // none was attempted yet: nothing is to be repeated
      for (const event of [1, 2]) yield* redeliver(own, event)
      assert.deepStrictEqual(yield* listed(own), ["3 pending", "2 pending", "1 pending"])
      yield* attempt(yield* leaseLater(own), { 2: 503 })
      yield* redeliver(own, 2)
      assert.deepStrictEqual(yield* listed(own), ["2 pending", "3 pending", "2 cancelled 503", "1 pending"])
      assert.deepStrictEqual(yield* listed(other), ["3 pending", "2 pending 500", "1 delivered 200"])
    }))

  it.effect("each one's next holder goes on behind what earlier ones did for it", () =>
    Effect.gen(function*() {
      const [own, other] = [yield* setUp, yield* setUp]
      yield* attempt(yield* leaseOf(other.integratorId), { 1: 200, 2: 500, 3: 500 })
      const first = yield* leaseLater(own)
      assert.strictEqual(first.ahead, 0n)
      yield* attempt(first, { 3: 200 })
      const { lease } = yield* Deliveries
      const now = (yield* Clock.currentTimeMillis) + 120_000
      const leased = yield* lease({ worker: "next", now, until: now + 30_000, limit: 100 })
      const second = leased.find(({ integratorId }) => integratorId === own.integratorId) ?? assert.fail("no lease")
      assert.strictEqual(second.ahead, 3n)
      assert.deepStrictEqual(numbersOf((yield* readOf(second)).events), [1, 2])
    }))

  it.effect("each one's replay has all of its own events, and shows its own attempts", () =>
    Effect.gen(function*() {
      const [own, other] = [yield* setUp, yield* setUp]
      const othersLease = yield* leaseOf(other.integratorId)
      const { sent: [first, second] } = yield* replay(other, othersLease)
      if (first === undefined || second === undefined) return assert.fail("three events")
      const changes = { cursor: 3n, retries: [] }
      yield* recordOf(othersLease, [first], 200, changes)
      yield* recordOf(othersLease, [second], 500, { cursor: 3n })
      const ownLease = yield* leaseLater(own)
      const { events, sent } = yield* replay(own, ownLease)
      assert.deepStrictEqual([events, numbersOf(sent)], [3, [1, 2, 3]])
      yield* recordOf(ownLease, sent, 202, changes)
      assert.deepStrictEqual(yield* listed(own), ["3 delivered 200 202", "2 delivered 200 202", "1 delivered 200 202"])
    }))
})
