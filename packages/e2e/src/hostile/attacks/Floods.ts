import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"
import * as Sockets from "../Sockets.ts"

const users = 200

/** About twice what the service takes on two cores that it shares with the attacker and PostgreSQL. */
const postsPerSecond = 6_000
const readsPerSecond = 6_000

/** New spend events on many connections at once, with no rate limit. */
export const ingestFlood = Attack.make({
  name: "ingest-flood",
  what: ({ connections }: Sockets.Flood) => `posts of spend events on ${Attack.grouped(connections)} connections`,
  short: { connections: 1_200, perSecond: 1_000, millis: 1_000 },
  full: { connections: 3_000, perSecond: postsPerSecond, millis: 20_000 },
  maxSeconds: 60,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    yield* Seed.enroll(attacker, users)
    const begin = yield* Attacker.publishPlain(attacker)
    const headers = { "x-api-key": attacker.apiKey }
    return Effect.scoped(flood(attacker, size, (index) => {
      const event = Attacker.spendEvent(attacker, "clearing", Seed.userOf(index % users), `f-${index}`, begin)
      return Sockets.request("POST", "/v1/spend-events", headers, JSON.stringify(event))
    }))
  })
})

const batchEvents = 500

/** The largest batches, of new events and of events whose every field is wrong, in turn. */
export const batchFlood = Attack.make({
  name: "batch-flood",
  what: ({ connections }: Sockets.Flood) =>
    `batches of ${batchEvents} spend events, every other one invalid, on ${Attack.grouped(connections)} connections`,
  short: { connections: 40, perSecond: 20, millis: 1_000 },
  full: { connections: 200, perSecond: 100, millis: 20_000 },
  maxSeconds: 60,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    yield* Seed.enroll(attacker, users)
    const begin = yield* Attacker.publishPlain(attacker)
    const headers = { "x-api-key": attacker.apiKey }
    const wrong = Array.from({ length: batchEvents }, () => ({ kind: "clearing", amount: 1, merchant: {}, more: 1 }))
    const valid = (index: number) =>
      Array.from({ length: batchEvents }, (_, item) =>
        Attacker.spendEvent(attacker, "clearing", Seed.userOf(item % users), `b-${index}-${item}`, begin))
    return Effect.scoped(flood(attacker, size, (index) => {
      const events = index % 2 === 0 ? valid(index) : wrong
      return Sockets.request("POST", "/v1/spend-events/batch", headers, JSON.stringify({ events }))
    }))
  })
})

const rewardsEach = 20

/** Balances and pages of rewards on many connections at once, with no rate limit. */
export const readFlood = Attack.make({
  name: "read-flood",
  what: ({ connections }: Sockets.Flood) =>
    `reads of balances and rewards on ${Attack.grouped(connections)} connections`,
  short: { connections: 400, perSecond: 1_000, millis: 1_000 },
  full: { connections: 2_000, perSecond: readsPerSecond, millis: 20_000 },
  maxSeconds: 60,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    yield* Seed.enroll(attacker, users)
    const begin = yield* Attacker.publishPlain(attacker)
    yield* Seed.store(attacker, { count: users * rewardsEach, users, occurredAt: begin })
    const headers = { "x-api-key": attacker.apiKey }
    return Effect.scoped(flood(attacker, size, (index) => {
      const user = `/v1/users/${Seed.userOf(index % users)}`
      return Sockets.request("GET", index % 2 === 0 ? `${user}/balance` : `${user}/rewards?limit=100`, headers)
    }))
  })
})

interface DueReads extends Sockets.Flood {
  readonly users: number
}

/**
 * Balances of users whose rewards have just become due, each of which has to be applied before it is read. The worker
 * comes to the users who are read first at last.
 */
export const dueReadFlood = Attack.make({
  name: "due-read-flood",
  what: ({ connections, users }: DueReads) =>
    `reads of ${Attack.grouped(users)} balances with due rewards on ${Attack.grouped(connections)} connections`,
  short: { users: 1_500, connections: 400, perSecond: 1_000, millis: 1_000 },
  full: { users: 20_000, connections: 500, perSecond: readsPerSecond, millis: 20_000 },
  maxSeconds: 120,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    const { users } = size
    yield* Seed.enroll(attacker, users)
    const begin = yield* Attacker.publishPlain(attacker, { holdingPeriodDays: 1 })
    yield* Attacker.deposit(attacker, "all", Attacker.rewardOfDollar * BigInt(users))
    yield* Seed.store(attacker, { count: users, users, occurredAt: begin })
    const headers = { "x-api-key": attacker.apiKey }
    const reads = flood(attacker, size, (index) =>
      Sockets.request("GET", `/v1/users/${Seed.userOf(users - 1 - index % users)}/balance`, headers))
    const dueAt = begin + Attacker.dayMillis
    const both = Effect.all([reads, Attacker.matured(attacker, dueAt)], { concurrency: 2 })
    return Effect.andThen(Attacker.moveClock(attacker, dueAt), Effect.scoped(Effect.map(both, ([found]) => found)))
  })
})

const flood = Effect.fnUntraced(function*(
  { service }: Attacker.Attacker,
  size: Sockets.Flood,
  request: (index: number) => string
) {
  const sockets = yield* Sockets.make(service)
  return Attack.outcome(...(yield* Sockets.figures(sockets, Sockets.flood(sockets, size, request))))
})
