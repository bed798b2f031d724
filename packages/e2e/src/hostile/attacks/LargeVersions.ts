import { Effect } from "effect"
import { iso } from "../../World.ts"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"

interface Size {
  readonly programs: number
  readonly versionsEach: number
  readonly clearings: number
}

const users = 50
const hourMillis = 3_600_000
/** A version's size on the wire, below the 256 KiB of a request body. */
export const targetBytes = 240 * 1024

/** The greatest lists that the decisions allow (section 4), within what a body may have. */
const categories = 200
const mccsEach = 20
const tiers = 50

const idOf = (index: number) => `category-${`${index}`.padStart(3, "0")}`
const rates = (count: number) => Array.from({ length: count }, (_, index) => ({ categoryId: idOf(index), rate: 100 }))

/** The lists of a version of about {@link targetBytes}; their content is the same in all versions. */
export const largeLists = (() => {
  const lists = (ratesEach: number) => ({
    categories: Array.from({ length: categories }, (_, index) => ({
      id: idOf(index),
      mccs: Array.from({ length: mccsEach }, (_mcc, position) => `${index * mccsEach + position}`.padStart(4, "0"))
    })),
    categoryRates: rates(categories),
    tiers: Array.from({ length: tiers }, (_, index) => ({
      tier: `tier-${index}`,
      multiplier: 10_000,
      categoryRates: rates(ratesEach)
    })),
    caps: { perMonth: `1${"0".repeat(40)}`, categories: [] }
  })
  let ratesEach = categories
  while (JSON.stringify(lists(ratesEach)).length > targetBytes) ratesEach--
  return lists(ratesEach)
})()

/**
 * Large program versions, each in force for an hour of the past, then clearings of now and of all those hours: a worker
 * that remembers none of them needs a version for each clearing.
 */
const prepare = Effect.fnUntraced(function*(attacker: Attacker.Attacker, size: Size) {
  const { programs, versionsEach } = size
  yield* Seed.enroll(attacker, users)
  const begin = (yield* Attacker.clock(attacker)) + Attacker.leadMillis + publicationMillis(size)
  const versions = Array.from({ length: programs * versionsEach }, (_, index) => ({
    programId: `program-${index % programs}`,
    version: Math.floor(index / programs) + 1
  }))
  yield* Effect.forEach(versions, ({ programId, version }) => {
    const effectiveFrom = begin + (version - 1) * hourMillis
    return Attacker.publish(attacker, programId, version, Attacker.definition(effectiveFrom, largeLists))
  }, { concurrency: 4, discard: true })
  const now = begin + versionsEach * hourMillis
  yield* Attacker.moveClock(attacker, now)
  return assault(attacker, size, begin, now)
})

/** The sandbox clock ticks while versions are published: more than that takes. */
const publicationMillis = ({ programs, versionsEach }: Size) => programs * versionsEach * 1_000

const assault = Effect.fnUntraced(function*(attacker: Attacker.Attacker, size: Size, begin: number, now: number) {
  const clearing = (index: number, occurredAt: number) =>
    Attacker.spendEvent(attacker, "clearing", Seed.userOf(index % users), `c-${index}`, occurredAt)
  const present = Array.from({ length: size.clearings }, (_, index) => clearing(index, now))
  const past = Array.from({ length: size.clearings }, (_, index) =>
    clearing(size.clearings + index, begin + (index % size.versionsEach) * hourMillis + 1_000))
  const { seconds } = yield* Attacker.timed(Effect.gen(function*() {
    yield* Attacker.postAll(attacker, [...present, ...past])
    yield* Attacker.processed(attacker)
  }))
  return Attack.outcome(`${2 * size.clearings} clearings since ${iso(begin).slice(0, 10)} in ${seconds.toFixed(1)} s`)
})

const what = ({ clearings, programs, versionsEach }: Size) =>
  `${Attack.grouped(programs * versionsEach)} program versions of ${targetBytes / 1024} KiB, then ${clearings} ` +
  `clearings of now and ${clearings} of past times`

export const largeVersions = Attack.make({
  name: "versions-900",
  what,
  short: { programs: 5, versionsEach: 4, clearings: 20 },
  full: { programs: 9, versionsEach: 100, clearings: 200 },
  maxSeconds: 120,
  prepare
})

export const moreLargeVersions = Attack.make({
  name: "versions-2500",
  what,
  full: { programs: 25, versionsEach: 100, clearings: 200 },
  maxSeconds: 180,
  prepare
})
