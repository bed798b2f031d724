import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"

const users = 1_000

/** A deposit is answered, and serves rewards that wait for it in order, however many they are. */
export const deposit = Attack.make({
  name: "deposit",
  what: ({ rewards }: { readonly rewards: number }) =>
    `a deposit that serves ${Attack.grouped(rewards)} waiting rewards`,
  short: { rewards: 1_200 },
  full: { rewards: 40_000 },
  maxSeconds: 120,
  prepare: Effect.fnUntraced(function*(attacker, { rewards }) {
    yield* Seed.enroll(attacker, users)
    const begin = yield* Attacker.publishPlain(attacker, { holdingPeriodDays: 1 })
    yield* Seed.store(attacker, { count: rewards, users, occurredAt: begin })
    return assault(attacker, rewards)
  })
})

const assault = Effect.fnUntraced(function*(attacker: Attacker.Attacker, rewards: number) {
  const total = Attacker.rewardOfDollar * BigInt(rewards)
  const answered = yield* Attacker.timed(Attacker.deposit(attacker, "all", total))
  const served = yield* Attacker.timed(Attacker.funded(attacker))
  return Attack.outcome(
    `answered in ${answered.seconds.toFixed(1)} s`,
    `served in ${(answered.seconds + served.seconds).toFixed(1)} s`
  )
})
