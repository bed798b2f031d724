import {
  Deliveries,
  type EndpointRecord,
  type LogDelivery,
  type ReadRequest
} from "@card-rewards/core/Deliveries"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Consumer } from "../src/WebhookDispatcher/Consumer.ts"
import { randomOf } from "./consumers/History.ts"
import { apiOf } from "./consumers/Api.ts"
import { Log } from "./consumers/Log.ts"
import { endpoint, event, services } from "./Dispatching.ts"

const delays = [1_000, 5_000, 20_000] as const
const histories = 12
const steps = 80
const leaseMillis = 30_000

/** The endpoint and its retries as the tables have them. */
const stored = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql`SELECT generation, start, cursor, revision, worker, token, failures, round, replay,
    replay_cursor, work_at IS NOT NULL AS has_work FROM webhook_endpoints WHERE deleted_at IS NULL`
  const retries = yield* sql<Record<string, unknown>>`SELECT event, round, reward, state, attempts, revision,
    next_attempt_at IS NOT NULL AS has_time FROM retries r
    WHERE generation = (SELECT max(generation) FROM webhook_endpoints) ORDER BY event, round`
  return { endpoint: row, retries }
})

const modelled = (log: Log) => {
  const { cursor, failures, generation, replay, replayCursor, revision, round, start, token } = log.endpoint
  const { workAt, worker = null } = log.endpoint
  const hasWork = workAt !== undefined
  const replayed = replay === undefined ? { replay: null, replayCursor: null } : { replay: replay.round, replayCursor }
  const rows = [...log.retries.values()].sort((one, other) =>
    Number(one.event - other.event) || one.round - other.round)
  return {
    endpoint: { generation, start, cursor, revision, worker, token, failures, round, ...replayed, hasWork },
    retries: rows.map(({ attempts, event, nextAttemptAt, revision, reward, round, state }) =>
      ({ event, round, reward, state, attempts, revision, hasTime: nextAttemptAt !== null }))
  }
}

/** Returns the holder, unless the endpoint was given up. */
const release = Effect.fnUntraced(function*(log: Log, holder: Consumer, now: number) {
  const released = holder.release(now, true)
  if (released === undefined) return holder
  const deliveries = yield* Deliveries
  assert.deepStrictEqual(yield* deliveries.release([released], now), log.release(released, now))
})

const poll = Effect.fnUntraced(function*(log: Log, holder: Consumer, now: number) {
  const request = holder.beginPoll(now, 0)
  if (request === undefined) return
  const found = yield* (yield* Deliveries).poll([request], now)
  assert.deepStrictEqual(found, log.poll(request, now))
  if (found.size > 0) holder.markUnread()
})

const ofLog = ({ event, isBlocked, reward, round }: LogDelivery) => ({ event, round, isBlocked, reward })

/**
 * One worker and the api, on PostgreSQL and on the log of the model: after each step the tables say the same. Times are
 * those of the model; the api's statements take the real time, which is earlier.
 */
const compare = Effect.fnUntraced(function*(seed: number) {
  const random = randomOf(seed)
  const below = (count: number) => Math.floor(random() * count)
  const log = new Log()
  const deliveries = yield* Deliveries
  yield* endpoint("acme", "http://127.0.0.1:9/0")
  const api = yield* apiOf(log, random)
  let now = Date.now() + 1_000_000
  let consumer: Consumer | undefined
  const storeEvent = Effect.suspend(() => {
    const reward = [undefined, 1, 1, 2][below(4)]
    log.store(reward === undefined ? null : BigInt(reward), now)
    return event("acme", reward)
  })
  const lease = Effect.gen(function*() {
    const until = now + leaseMillis
    const [leased] = yield* deliveries.lease({ worker: "one", now, until, limit: 1 })
    const [expected] = log.lease("one", now, until)
    assert.deepStrictEqual(leased, expected)
    if (leased !== undefined) consumer = new Consumer(leased, now, delays)
  })
  const read = Effect.fnUntraced(function*(holder: Consumer, request: ReadRequest) {
    const [reading] = yield* deliveries.read([request], now)
    const [expected] = log.read(request, now)
    const shown = (one: typeof reading) => ({
      events: one?.events.map(ofLog),
      readTo: one?.readTo,
      replay: one?.replay === undefined ? undefined : { ...one.replay, events: one.replay.events.map(ofLog) },
      retries: one?.retries.map(({ attempts, event, round }) => `${event}/${round}/${attempts}`).sort()
    })
    assert.deepStrictEqual(shown(reading), shown(expected))
    if (reading === undefined) consumer = undefined
    else holder.add(reading, now)
  })
  const record = Effect.fnUntraced(function*(holder: Consumer, given: EndpointRecord) {
    const result = yield* deliveries.record([given], now)
    assert.deepStrictEqual(result, log.record(given, now))
    holder.recorded(now)
    if (result.stored.size === 0) consumer = undefined
  })
  const deliver = Effect.fnUntraced(function*(holder: Consumer) {
    yield* poll(log, holder, now)
    const request = holder.beginRead(now)
    if (request !== undefined) yield* read(holder, request)
    const { attempts, isProbe } = holder.offer(now)
    for (const sending of holder.begin(Math.min(attempts, 4), isProbe, now)) {
      const status = random() < 0.4 ? 500 : 200
      holder.end(sending, { status, answer: "" }, 1, 1)
    }
    if (holder.canRecord) yield* record(holder, holder.record())
  })

  for (let step = 0; step < steps; step++) {
    now += random() < 0.8 ? below(2_000) : below(40_000)
    const dice = random()
    if (dice < 0.3) yield* storeEvent
    else if (dice < 0.4) yield* api.again(now)
    else if (dice < 0.44) yield* api.change(now)
    else if (dice < 0.48) yield* api.replay(now)
    else if (dice < 0.52) yield* lease
    else if (consumer === undefined) yield* lease
    else if (dice < 0.56) consumer = yield* release(log, consumer, now)
    // its process is killed
    else if (dice < 0.58) consumer = undefined
    else yield* deliver(consumer)
    assert.deepStrictEqual(yield* stored, modelled(log), `seed ${seed}, step ${step}`)
  }
})

it.live("the statements of Deliveries do what the model's log does", () =>
  Effect.forEach(Array.from({ length: histories }, (_, seed) => seed), (seed) =>
    compare(seed).pipe(Effect.scoped, Effect.provide(services())), { discard: true }), 120_000)
