import { Effect } from "effect"
import { expect } from "../../World.ts"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"

const clearings = 20

/** One user with many due rewards who owes half of what they come to: each of them may be recovered from. */
export const dueOwing = Attack.make({
  name: "due-owing",
  what: ({ rewards }: { readonly rewards: number }) =>
    `one user with ${Attack.grouped(rewards)} due rewards who owes, a clock move, then ${clearings} clearings`,
  short: { rewards: 1_200 },
  full: { rewards: 55_000 },
  maxSeconds: 120,
  prepare: Effect.fnUntraced(function*(attacker, { rewards }) {
    const userId = Seed.userOf(0)
    yield* Seed.enroll(attacker, 1)
    const begin = yield* Attacker.publishPlain(attacker)
    yield* Attacker.deposit(attacker, "all", Attacker.rewardOfDollar * BigInt(rewards) * 4n)
    const first = {
      ...Attacker.spendEvent(attacker, "clearing", userId, "first", begin),
      amount: { currency: "USD", amount: `${100 * rewards / 2}` }
    }
    yield* Attacker.postAll(attacker, [first])
    yield* Attacker.processed(attacker)
    const earned = yield* Attacker.claimable(attacker, userId)
    yield* expect(202, Attacker.claim(attacker, "first", userId, earned))
    const later = yield* Attacker.publishPlain(attacker, { holdingPeriodDays: 1 }, { version: 2 })
    yield* Seed.store(attacker, { count: rewards, users: 1, occurredAt: later, prefix: "due-" })
    const refund = { ...first, kind: "refund", externalTransactionId: "refund", originalTransactionId: "first" }
    yield* Attacker.postAll(attacker, [refund])
    yield* Attacker.processed(attacker)
    return assault(attacker, userId, later + Attacker.dayMillis)
  })
})

const assault = Effect.fnUntraced(function*(attacker: Attacker.Attacker, userId: string, dueAt: number) {
  yield* Attacker.moveClock(attacker, dueAt)
  const events = Array.from({ length: clearings }, (_, index) =>
    Attacker.spendEvent(attacker, "clearing", userId, `new-${index}`, dueAt))
  const posting = Attacker.timed(Attacker.postAll(attacker, events))
  const reading = Attacker.timed(Attacker.claimable(attacker, userId))
  const done = Attacker.timed(Effect.andThen(Attacker.matured(attacker, dueAt), Attacker.processed(attacker)))
  const [posted, read, applied] = yield* Effect.all([posting, reading, done], { concurrency: 3 })
  return Attack.outcome(
    `posted in ${posted.seconds.toFixed(1)} s`,
    `balance read in ${read.seconds.toFixed(1)} s`,
    `applied in ${applied.seconds.toFixed(1)} s`
  )
})
