import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"
import * as Sockets from "../Sockets.ts"
import { iso } from "../../World.ts"
import { largeLists, targetBytes } from "./LargeVersions.ts"

const attack = Effect.fnUntraced(function*(
  attacker: Attacker.Attacker,
  size: Sockets.Flood,
  request: (index: number) => string
) {
  const sockets = yield* Sockets.make(attacker.service)
  const found = yield* Sockets.figures(sockets, Sockets.flood(sockets, size, request))
  return Attack.outcome(...found, `${Attack.grouped(sockets.bytes / 2 ** 20)} MiB read`)
})

interface Programs extends Sockets.Flood {
  readonly programs: number
  readonly versionsEach: number
}

/** Programs with all of their large versions are read again and again. */
export const largePrograms = Attack.make({
  name: "large-programs",
  what: ({ connections, perSecond, programs, versionsEach }: Programs) =>
    `${programs} programs of ${versionsEach} versions of ${targetBytes / 1024} KiB, read ${perSecond} times a second ` +
    `on ${connections} connections`,
  short: { programs: 1, versionsEach: 6, connections: 5, perSecond: 5, millis: 1_000 },
  full: { programs: 4, versionsEach: 20, connections: 20, perSecond: 5, millis: 20_000 },
  maxSeconds: 60,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    const { programs, versionsEach } = size
    const begin = (yield* Attacker.clock(attacker)) + 2 * Attacker.leadMillis
    yield* Effect.forEach(Array.from({ length: programs * versionsEach }, (_, index) => index), (index) => {
      const definition = Attacker.definition(begin, largeLists)
      return Attacker.publish(attacker, `program-${index % programs}`, Math.floor(index / programs) + 1, definition)
    }, { concurrency: 4, discard: true })
    const headers = { "x-api-key": attacker.apiKey }
    return Effect.scoped(attack(attacker, size, (index) =>
      Sockets.request("GET", `/v1/programs/program-${index % programs}`, headers)))
  })
})

/** Users whose clearings are seeded. */
const users = 500

interface Events extends Sockets.Flood {
  readonly claims: number
}

/** Rewards of one claim, the most that its event names. */
const rewardsOfClaim = 1_000
/** Makes an entry of the event about 300 bytes. */
const prefix = "transaction-".repeat(8)

/** Pages of large events are read on many connections at once. */
export const largeEvents = Attack.make({
  name: "large-events",
  what: ({ claims, connections, perSecond }: Events) =>
    `pages of events of about 200 KiB, ${claims} of them, read up to ${perSecond} times a second on ` +
    `${connections} connections`,
  short: { claims: 2, connections: 20, perSecond: 100, millis: 1_000 },
  full: { claims: 20, connections: 100, perSecond: 200, millis: 20_000 },
  maxSeconds: 60,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    const { claims } = size
    yield* Seed.enroll(attacker, claims)
    const begin = yield* Attacker.publishPlain(attacker, { holdingPeriodDays: 0 })
    const each = Attacker.rewardOfDollar * BigInt(rewardsOfClaim)
    yield* Attacker.deposit(attacker, "all", each * BigInt(claims))
    yield* Seed.store(attacker, { count: claims * rewardsOfClaim, users: claims, occurredAt: begin, prefix })
    for (let user = 0; user < claims; user++) {
      const { status, text } = yield* Attacker.claim(attacker, `claim-${user}`, Seed.userOf(user), each)
      if (status !== 202) return yield* Effect.die(new Error(`claim: ${status} ${text}`))
    }
    const request = Sockets.request("GET", "/v1/events?kind=vault.claim_confirmed&limit=100", {
      "x-api-key": attacker.apiKey
    })
    return Effect.scoped(attack(attacker, size, () => request))
  })
})

interface Books extends Sockets.Flood {
  readonly clearings: number
}

/** The longest statements, as JSON and as CSV, and exports of the journal, on many connections at once. */
export const books = Attack.make({
  name: "books",
  what: ({ clearings, connections, perSecond }: Books) =>
    `statements of 400 days and exports of the journal of ${Attack.grouped(clearings)} clearings, ` +
    `${perSecond} times a second on ${connections} connections`,
  short: { clearings: 1_000, connections: 20, perSecond: 100, millis: 1_000 },
  full: { clearings: 100_000, connections: 100, perSecond: 200, millis: 20_000 },
  maxSeconds: 120,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    yield* Seed.enroll(attacker, users)
    const begin = yield* Attacker.publishPlain(attacker)
    yield* Seed.store(attacker, { count: size.clearings, users, occurredAt: begin })
    const range = `from=${iso(begin - 399 * Attacker.dayMillis).slice(0, 10)}&to=${iso(begin).slice(0, 10)}`
    const requests = [
      [`/v1/statements/USDC?${range}`, "application/json"],
      [`/v1/statements/USDC?${range}`, "text/csv"],
      ["/v1/journal", "application/x-ndjson"],
      ["/v1/journal?limit=1000", "application/json"]
    ].map(([path = "", accept = ""]) => Sockets.request("GET", path, { "x-api-key": attacker.apiKey, accept }))
    return Effect.scoped(attack(attacker, size, (index) => requests[index % requests.length] ?? ""))
  })
})

interface Simulations extends Sockets.Flood {
  readonly clearings: number
}

/** Simulations on many connections at once. */
export const simulations = Attack.make({
  name: "simulations",
  what: ({ clearings, connections }: Simulations) =>
    `simulations over ${Attack.grouped(clearings)} clearings on ${connections} connections`,
  short: { clearings: 1_000, connections: 10, perSecond: 100, millis: 1_000 },
  full: { clearings: 20_000, connections: 50, perSecond: 100, millis: 20_000 },
  maxSeconds: 60,
  prepare: Effect.fnUntraced(function*(attacker, size) {
    yield* Seed.enroll(attacker, users)
    const begin = yield* Attacker.publishPlain(attacker)
    yield* Seed.store(attacker, { count: size.clearings, users, occurredAt: begin })
    const body = JSON.stringify({
      definition: Attacker.definition(begin + Attacker.leadMillis),
      from: iso(begin - Attacker.dayMillis),
      to: iso(begin + Attacker.dayMillis)
    })
    const headers = { "x-api-key": attacker.apiKey }
    const request = Sockets.request("POST", "/v1/programs/program-0/simulations", headers, body)
    return Effect.scoped(attack(attacker, size, () => request))
  })
})
