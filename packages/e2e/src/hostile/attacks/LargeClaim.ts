import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Attacker from "../Attacker.ts"
import * as Seed from "../Seed.ts"

interface Size {
  readonly clearings: number
  readonly programs: number
}

/** A user claims everything at once. */
export const largeClaim = Attack.make({
  name: "claim",
  what: ({ clearings, programs }: Size) => `a claim of ${Attack.grouped(clearings * programs)} rewards`,
  full: { clearings: 20_000, programs: 10 },
  maxSeconds: 180,
  prepare: Effect.fnUntraced(function*(attacker, { clearings, programs }) {
    const userId = Seed.userOf(0)
    yield* Seed.enroll(attacker, 1)
    const begin = yield* Attacker.publishPlain(attacker, {}, { programs })
    const total = Attacker.rewardOfDollar * BigInt(clearings * programs)
    yield* Attacker.deposit(attacker, "all", total)
    yield* Seed.store(attacker, { count: clearings, users: 1, occurredAt: begin })
    return assault(attacker, userId, total)
  })
})

const assault = Effect.fnUntraced(function*(attacker: Attacker.Attacker, userId: string, total: bigint) {
  const answered = yield* Attacker.timed(Attacker.claim(attacker, "everything", userId, total))
  const { status } = answered.value
  const figure = `${status} in ${answered.seconds.toFixed(1)} s`
  if (status !== 202) return { figures: [figure], failures: [`the claim was answered ${status}, must be 202`] }
  const paid = yield* Attacker.timed(Attacker.paid(attacker))
  return Attack.outcome(figure, `all paid ${paid.seconds.toFixed(1)} s later`)
})
