import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"

interface Size {
  readonly clearings: number
  readonly programs: number
}

const users = 1_000

const what = ({ clearings, programs }: Size) => `${Attack.grouped(clearings * programs)} rewards of many users come due`

/** Rewards that come due at one instant, for no one who owes: only the worker's background work. */
const prepare = Effect.fnUntraced(function*(attacker: Attacker.Attacker, { clearings, programs }: Size) {
  yield* Seed.enroll(attacker, users)
  const begin = yield* Attacker.publishPlain(attacker, { holdingPeriodDays: 1 }, { programs })
  yield* Attacker.deposit(attacker, "all", Attacker.rewardOfDollar * BigInt(clearings * programs))
  yield* Seed.store(attacker, { count: clearings, users, occurredAt: begin })
  return assault(attacker, begin + Attacker.dayMillis, clearings * programs)
})

const assault = Effect.fnUntraced(function*(attacker: Attacker.Attacker, dueAt: number, rewards: number) {
  yield* Attacker.moveClock(attacker, dueAt)
  const { seconds } = yield* Attacker.timed(Attacker.matured(attacker, dueAt))
  return Attack.outcome(`matured in ${seconds.toFixed(1)} s, ${Attack.grouped(rewards / seconds)}/s`)
})

export const maturing = Attack.make({
  name: "maturing",
  what,
  short: { clearings: 1_200, programs: 1 },
  full: { clearings: 55_000, programs: 1 },
  maxSeconds: 120,
  prepare
})

export const millionDue = Attack.make({
  name: "million-due",
  what,
  full: { clearings: 20_000, programs: 50 },
  maxSeconds: 600,
  rewardBoundMillis: 500,
  prepare
})
