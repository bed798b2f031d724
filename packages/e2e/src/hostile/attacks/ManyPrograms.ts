import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"

const programs = 50
const users = 200

interface Size {
  readonly clearings: number
}

const funds = (clearings: number) => Attacker.rewardOfDollar * BigInt(programs * clearings)

/** Each clearing earns in all of 50 programs. */
export const manyPrograms = Attack.make({
  name: "fifty-programs",
  what: ({ clearings }: Size) =>
    `${programs} programs and a flood of ${Attack.grouped(clearings)} clearings, ${programs} rewards each`,
  short: { clearings: 60 },
  full: { clearings: 3_000 },
  maxSeconds: 180,
  prepare: Effect.fnUntraced(function*(attacker, { clearings }) {
    yield* Seed.enroll(attacker, users)
    const begin = yield* Attacker.publishPlain(attacker, { holdingPeriodDays: 1 }, { programs })
    yield* Attacker.deposit(attacker, "all", funds(clearings))
    const events = Array.from({ length: clearings }, (_, index) =>
      Attacker.spendEvent(attacker, "clearing", Seed.userOf(index % users), `c-${index}`, begin))
    return Effect.gen(function*() {
      const posted = yield* Attacker.timed(Attacker.postAll(attacker, events))
      const done = yield* Attacker.timed(Attacker.processed(attacker))
      const seconds = posted.seconds + done.seconds
      const perSecond = Attack.grouped(programs * clearings / seconds)
      return Attack.outcome(
        `posted in ${posted.seconds.toFixed(1)} s, processed in ${seconds.toFixed(1)} s, ${perSecond} rewards/s`
      )
    })
  })
})

/** Clearings wait for their authorization, and are applied with it. */
export const waitingClearings = Attack.make({
  name: "waiting-clearings",
  what: ({ clearings }: Size) =>
    `an authorization that ${Attack.grouped(clearings)} clearings wait for, under ${programs} programs`,
  short: { clearings: 60 },
  full: { clearings: 1_000 },
  maxSeconds: 180,
  prepare: Effect.fnUntraced(function*(attacker, { clearings }) {
    const userId = Seed.userOf(0)
    yield* Seed.enroll(attacker, 1)
    const begin = yield* Attacker.publishPlain(attacker, { holdingPeriodDays: 1 }, { programs })
    yield* Attacker.deposit(attacker, "all", funds(clearings))
    const events = Array.from({ length: clearings }, (_, index) =>
      Attacker.spendEvent(attacker, "clearing", userId, `c-${index}`, begin, { authorizationId: "awaited" }))
    yield* Attacker.postAll(attacker, events)
    yield* Attacker.processed(attacker)
    return Effect.gen(function*() {
      yield* Attacker.postAll(attacker, [Attacker.spendEvent(attacker, "authorization", userId, "awaited", begin)])
      const { seconds } = yield* Attacker.timed(Attacker.processed(attacker))
      return Attack.outcome(`applied in ${seconds.toFixed(1)} s`)
    })
  })
})
