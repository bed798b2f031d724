import { Effect } from "effect"
import { expect } from "../../World.ts"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"
import { claimAll } from "../SeedClaims.ts"

interface Size {
  readonly users: number
  /** Deposits, and as many claims and clearings, of the attack itself. */
  readonly operations: number
}

/** Deposits, claims or clearings at once. */
const concurrency = 4

/**
 * Users who owe, each with a due reward to recover from: every clearing earned at once in one program and is held a day
 * in the other; the first reward was claimed, then half of the purchase was refunded.
 */
export const manyOwing = Attack.make({
  name: "many-owing",
  what: ({ operations, users }: Size) =>
    `${Attack.grouped(users)} users who owe with due rewards, then ${operations} deposits, claims and clearings`,
  short: { users: 200, operations: 20 },
  full: { users: 100_000, operations: 100 },
  maxSeconds: 300,
  prepare: Effect.fnUntraced(function*(attacker, { operations, users }) {
    yield* Seed.enroll(attacker, users)
    const begin = (yield* Attacker.clock(attacker)) + Attacker.leadMillis
    yield* Attacker.publish(attacker, "at-once", 1, Attacker.definition(begin))
    yield* Attacker.publish(attacker, "held", 1, Attacker.definition(begin, { holdingPeriodDays: 1 }))
    yield* Attacker.moveClock(attacker, begin)
    yield* Attacker.deposit(attacker, "all", Attacker.rewardOfDollar * 2n * BigInt(users))
    const events = { count: users, users, occurredAt: begin }
    yield* Seed.store(attacker, events)
    yield* claimAll(attacker)
    yield* Seed.store(attacker, { ...events, kind: "refund", prefix: "r-", refundOf: "c-", cents: 50 })
    return assault(attacker, begin + Attacker.dayMillis, operations)
  })
})

const assault = Effect.fnUntraced(function*(attacker: Attacker.Attacker, dueAt: number, operations: number) {
  yield* Attacker.moveClock(attacker, dueAt)
  const operate = (index: number) =>
    Effect.gen(function*() {
      yield* Attacker.deposit(attacker, `more-${index}`, 1n)
      // nothing is left to claim once what is owed was recovered
      yield* expect(422, Attacker.claim(attacker, `none-${index}`, Seed.userOf(index), 1n))
      const clearing = Attacker.spendEvent(attacker, "clearing", Seed.userOf(index), `new-${index}`, dueAt)
      yield* Attacker.postAll(attacker, [clearing])
    })
  const operated = Attacker.timed(Effect.forEach(Array.from({ length: operations }, (_, index) => index), operate, {
    concurrency,
    discard: true
  }))
  const recovered = Attacker.timed(Attacker.matured(attacker, dueAt))
  const [one, all] = yield* Effect.all([operated, recovered], { concurrency: 2 })
  yield* Attacker.processed(attacker)
  return Attack.outcome(`operations in ${one.seconds.toFixed(1)} s`, `recovered in ${all.seconds.toFixed(1)} s`)
})
