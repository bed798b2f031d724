import { Deliveries } from "@card-rewards/core/Deliveries"
import { closedBreaker } from "@card-rewards/domain/Delivery"
import { recentMillis } from "@card-rewards/domain/DeliverySlots"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { Connector } from "@card-rewards/worker/Connector"
import { Consumers } from "@card-rewards/worker/WebhookDispatcher/Consumers"
import * as Leases from "@card-rewards/worker/WebhookDispatcher/Leases"
import * as Sender from "@card-rewards/worker/WebhookDispatcher/Sender"
import { CellShares } from "@card-rewards/worker/WebhookDispatcher/CellShares"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Latch } from "effect"
import { TestClock } from "effect/testing"
import { away, dispatcher, eventsEach, pass } from "./FakeDeliveries.ts"
import { readConsumer } from "./ReadConsumer.ts"

/** A receiver that never answers. */
const silent = Connector.of({ post: () => () => undefined })

/** A cell of a worker that holds 24 endpoints, with many attempts in flight. */
const busyCell = Effect.fnUntraced(function*(limits: CellShares, deliveries: Partial<Deliveries["Service"]>) {
  const consumers = new Consumers(limits)
  const sender = yield* Sender.make(consumers, { reads: yield* Latch.make(), records: yield* Latch.make() })
  for (let index = 0; index < 24; index++) {
    const times = { startUntilNanos: 2n ** 62n, endsNanos: 2n ** 62n }
    consumers.add({ consumer: readConsumer(`integrator-${index}`, 16), ...times })
  }
  for (let step = 0; step < 4; step++) {
    sender.send()
    yield* TestClock.adjust(recentMillis)
  }
  const clock = yield* Clock.Clock
  const context = { retryDelays: [1_000] as const, leaseMillis: 30_000, worker: "test" }
  return { ...context, clock, consumers, sender, deliveries: { ...(yield* unused), ...deliveries } }
}, Effect.provideService(Connector, silent))

const unused = Effect.succeed(Deliveries.of({
  lease: () => Effect.die("lease"),
  renew: () => Effect.die("renew"),
  poll: () => Effect.die("poll"),
  read: () => Effect.die("read"),
  record: () => Effect.die("record"),
  release: () => Effect.die("release"),
  purge: () => Effect.die("purge"),
  keepAttempts: () => Effect.die("keepAttempts")
}))

const immediate = Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))

it.effect("a cell that has lost all of its endpoints leaves the limits to the others", () =>
  Effect.gen(function*() {
    const limits = new CellShares()
    const other = new Consumers(limits)
    other.begin(0, 0n)
    const cell = yield* busyCell(limits, { renew: () => Effect.succeed({ renewed: new Set(), busy: new Set() }) })
    assert.isAtMost(limits.free(other).inFlight, 256)
    assert.strictEqual(limits.endpoints, 24)
    yield* Leases.renew(cell)
    yield* immediate
    assert.deepInclude(limits.free(other), { inFlight: 512 - 128, unrecorded: 768 - 192 })
    assert.strictEqual(limits.endpoints, 1)
  }))

it.effect("a cell that has given up its endpoints leaves the room for bodies to the others", () =>
  Effect.gen(function*() {
    const limits = new CellShares()
    const cell = yield* busyCell(limits, { release: () => Effect.succeed(new Set()) })
    for (const { consumer } of cell.consumers) consumer.sendings.slice().forEach((sending) => consumer.drop(sending))
    yield* Leases.release(cell, true)
    yield* immediate
    assert.strictEqual(limits.endpoints, 1)
  }))

it.effect("an endpoint that a worker leases again itself has no attempt of its earlier lease in flight", () =>
  Effect.gen(function*() {
    const integratorId = IntegratorId.make("integrator-0")
    const lease = { integratorId, generation: 1, token: 2n, takenFrom: "test", cursor: 0n, ahead: 0n }
    const leased = [{ ...lease, breaker: closedBreaker }]
    const cell = yield* busyCell(new CellShares(), { lease: () => Effect.succeed(leased) })
    const earlier = cell.consumers.get(integratorId)?.consumer
    assert.isNotEmpty(earlier?.sendings)
    yield* Leases.lease(cell)
    assert.isEmpty(earlier?.sendings)
    assert.strictEqual(cell.consumers.get(integratorId)?.consumer.lease.token, 2n)
  }))

it.effect("endpoints that could not be given up are served again as soon as the database is back", () =>
  Effect.gen(function*() {
    const { state } = yield* dispatcher(3)
    yield* pass(1)
    assert.strictEqual(state.recorded(), 3 * eventsEach)
    // longer than leases without anything to send are kept
    state.database = () => Effect.fail(away)
    yield* pass(8)
    state.database = () => Effect.void
    state.events = eventsEach + 1
    yield* pass(4)
    assert.strictEqual(state.recorded(), 3 * (eventsEach + 1))
  }))
