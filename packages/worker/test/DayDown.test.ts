import { Deliveries } from "@card-rewards/core/Deliveries"
import { defaultRetryDelays, isOpen } from "@card-rewards/domain/Delivery"
import { assert, it } from "@effect/vitest"
import { Clock, Console, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { endpoint, services } from "./Dispatching.ts"

const hour = 3_600_000
const downMillis = 24 * hour
const rewards = 30
const url = "http://127.0.0.1:9/hook"
/** Every hour of the outage each reward has an event, and the vault ten. */
const eventsPerHour = rewards + 10

interface Arrival {
  readonly event: number
  readonly at: number
}

const layer = Layer.effectContext(TestClock.withLive(Layer.build(services({ retryDelays: defaultRetryDelays }))))

it.effect("after a day's outage everything arrives soon, in order, after few requests in vain", () =>
  Effect.gen(function*() {
    const { claim, record } = yield* Deliveries
    const sql = yield* SqlClient.SqlClient
    yield* TestClock.setTime(1_800_000_000_000)
    const begin = yield* Clock.currentTimeMillis
    yield* endpoint("acme", url)
    let bornHours = 0
    let inVain = 0
    const arrivals: Array<Arrival> = []

    const beBorn = Effect.fnUntraced(function*(now: number) {
      while (bornHours < 24 && begin + bornHours * hour <= now) {
        const first = bornHours++ * eventsPerHour
        yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, body)
          SELECT 'acme', ${first}::int8 + n, 'evt_' || ${first}::int8 + n, 'webhook.ping', now(), '{}'
          FROM generate_series(1, ${eventsPerHour}::int8) AS n`
        yield* sql`INSERT INTO deliveries
            (integrator_id, event, round, generation, reward, state, created_at, next_attempt_at)
          SELECT 'acme', ${first}::int8 + n, 1, 1, CASE WHEN n <= ${rewards}::int8 THEN n END, 'pending', t, t
          FROM generate_series(1, ${eventsPerHour}::int8) AS n, to_timestamp(${now / 1_000}::float8) AS t`
      }
    })

    while (true) {
      const now = yield* Clock.currentTimeMillis
      yield* beBorn(now)
      const limits = { limit: 512, perEndpoint: 16, inFlight: new Map(), slow: new Set<string>(), slowLimit: 256 }
      const claims = (yield* claim({ now, ...limits })).map(({ claim }) => claim)
      const isDown = now < begin + downMillis
      if (isDown) inVain += claims.length
      else arrivals.push(...claims.map(({ event }) => ({ event: Number(event), at: now })))
      const result = isDown ? { error: "connection_refused" } : { status: 200, answer: "" }
      yield* record(claims.map((one) => ({ claim: one, url, startedAt: now, durationMillis: 0, result })), now)
      if (claims.length > 0) continue
      const [next] = yield* sql<{ due: number | null; failures: number; probeAt: number | null }>`
        SELECT (SELECT min(next_attempt_at) FROM deliveries WHERE state = 'pending') AS due, failures, probe_at
        FROM webhook_endpoints`
      if (next === undefined || (next.due === null && bornHours === 24)) break
      const due = Math.max(next.due ?? 0, isOpen(next) ? next.probeAt ?? 0 : 0, now + 1_000)
      yield* TestClock.setTime(bornHours < 24 ? Math.min(due, begin + bornHours * hour) : due)
    }

    const total = 24 * eventsPerHour
    assert.strictEqual(new Set(arrivals.map(({ event }) => event)).size, total)
    assert.lengthOf(arrivals, total)
    for (let reward = 1; reward <= rewards; reward++) {
      const own = arrivals.filter(({ event }) => event % eventsPerHour === reward).map(({ event }) => event)
      assert.lengthOf(own, 24)
      assert.deepStrictEqual(own, own.toSorted((a, b) => a - b))
    }
    const waits = arrivals.map(({ at }) => (at - begin - downMillis) / 60_000)
    const [most] = yield* sql<{ attempts: number }>`SELECT max(attempts) AS attempts FROM deliveries`
    const [firstWait, lastWait] = [Math.min(...waits), Math.max(...waits)]
    yield* Effect.logInfo(`${total} events of a day's outage: ${inVain} requests in vain, at most ${most?.attempts} `
      + `attempts of one event; the first arrived ${firstWait.toFixed(1)} min after the receiver was back, `
      + `the last after ${lastWait.toFixed(1)} min`)
    assert.isBelow(inVain, 60)
    assert.isAtMost(lastWait, 61 + 12)
    assert.isBelow(most?.attempts ?? 13, 13)
  }).pipe(Effect.provide(layer), Effect.provideService(Console.Console, globalThis.console)), 120_000)
