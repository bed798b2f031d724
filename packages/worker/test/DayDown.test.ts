import { Deliveries } from "@card-rewards/core/Deliveries"
import { defaultRetryDelays } from "@card-rewards/domain/Delivery"
import { assert, it } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Sending } from "../src/WebhookDispatcher/Consumer.ts"
import { Consumers } from "../src/WebhookDispatcher/Consumers.ts"
import * as Leases from "../src/WebhookDispatcher/Leases.ts"
import * as Reads from "../src/WebhookDispatcher/Reads.ts"
import * as Records from "../src/WebhookDispatcher/Records.ts"
import { endpoint, events, services } from "./Dispatching.ts"

const hour = 3_600_000
const begin = 1_800_000_000_000
const downMillis = 24 * hour
const rewards = 30
/** Every hour of the outage each reward has an event, and the vault ten. */
const eventsPerHour = rewards + 10

/** A clock that the test moves: short pauses end at once, deadlines never do. */
const makeClock = () => {
  const time = { now: begin }
  const nanos = () => BigInt(time.now) * 1_000_000n
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: () => time.now,
    currentTimeMillis: Effect.sync(() => time.now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) => Duration.toMillis(duration) < 100 ? Effect.void : Effect.never
  }
  return { clock, time }
}

/** A day in which the receiver is down, and what follows until all has arrived. */
const simulateDay = Effect.gen(function*() {
  const deliveries = yield* Deliveries
  const sql = yield* SqlClient.SqlClient
  const { clock, time } = makeClock()
  const consumers = new Consumers()
  const inFlight: Array<Sending> = []
  const sender = {
    send: () => void inFlight.push(...consumers.begin(time.now, clock.monotonicTimeNanosUnsafe())),
    schedule: () => {},
    stop: () => {},
    abort: () => {},
    lose: () => {}
  }
  const context = {
    deliveries,
    consumers,
    sender,
    clock,
    retryDelays: defaultRetryDelays,
    leaseMillis: Leases.defaultMillis,
    worker: "test"
  }
  const records = Records.step(context)
  const reads = Reads.step(context)
  yield* endpoint("acme", "http://127.0.0.1:9/hook")
  const arrivals: Array<{ readonly event: number; readonly at: number }> = []
  let storedHours = 0
  let inVain = 0
  let mostRetries = 0

  const send = Effect.gen(function*() {
    while (inFlight.length > 0) {
      for (const sending of inFlight.splice(0)) {
        const isDown = time.now < begin + downMillis
        if (isDown) inVain++
        else arrivals.push({ event: Number(sending.item.event), at: time.now })
        const result = isDown ? { error: "connection_refused" } : { status: 200, answer: "" }
        sending.consumer.end(sending, result, 0, 1)
      }
      yield* records
      sender.send()
    }
  })
  const simulate = Effect.gen(function*() {
    while (true) {
      for (; storedHours < 24 && begin + storedHours * hour <= time.now; storedHours++) {
        yield* events("acme", eventsPerHour, { rewards: eventsPerHour, storedAt: time.now })
        yield* sql`UPDATE events SET reward = NULL WHERE reward >= ${rewards}::int8`
      }
      yield* Leases.renew(context)
      yield* Leases.lease(context)
      yield* reads
      yield* send
      yield* Leases.lease(context)
      const [{ left, workAt } = { left: 0, workAt: null }] = yield* sql<{ left: number; workAt: number | null }>`
        SELECT e.work_at, (SELECT count(*)::int4 FROM retries WHERE state = 'open') AS left FROM webhook_endpoints e`
      if (time.now < begin + downMillis) mostRetries = Math.max(mostRetries, left)
      if (inFlight.length > 0) continue
      if (consumers.count > 0) time.now += 1_000
      else if (workAt !== null) {
        const next = Math.max(time.now + 1, workAt)
        time.now = storedHours < 24 ? Math.min(next, begin + storedHours * hour) : next
      } else if (storedHours === 24) break
      else time.now = begin + storedHours * hour
    }
  })
  yield* Effect.provideService(simulate, Clock.Clock, clock)
  return { arrivals, inVain, mostRetries }
})

it.live("after a day's outage everything arrives soon, in order, after few requests in vain", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { arrivals, inVain, mostRetries } = yield* simulateDay
    const total = 24 * eventsPerHour
    assert.strictEqual(new Set(arrivals.map(({ event }) => event)).size, total)
    assert.lengthOf(arrivals, total)
    for (let reward = 0; reward < rewards; reward++) {
      const own = arrivals.filter(({ event }) => event % eventsPerHour === reward).map(({ event }) => event)
      assert.lengthOf(own, 24)
      assert.deepStrictEqual(own, own.toSorted((one, other) => one - other))
    }
    const waits = arrivals.map(({ at }) => (at - begin - downMillis) / 60_000)
    const [most] = yield* sql<{ attempts: number }>`SELECT max(attempt) AS attempts FROM delivery_attempts`
    const [firstWait, lastWait] = [Math.min(...waits), Math.max(...waits)]
    yield* Effect.logInfo(`${total} events of a day's outage: ${inVain} requests in vain, ${mostRetries} retries ` +
      `meanwhile, at most ${most?.attempts} attempts of one event; the first arrived ${firstWait.toFixed(1)} min ` +
      `after the receiver was back, the last after ${lastWait.toFixed(1)} min`)
    assert.isBelow(inVain, 60)
    assert.isBelow(mostRetries, 60)
    assert.isAtMost(lastWait, 61 + 12)
    assert.isBelow(most?.attempts ?? 13, 13)
  }).pipe(Effect.scoped, Effect.provide(services())))
