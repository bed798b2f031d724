import type { Kind } from "../Spend.ts"
import type { Operation } from "../Operation.ts"
import { day, hour, minute, type Scenario, spender } from "./Scenario.ts"

/** Amounts of purchases and refunds in cents, about the limits of rounding. */
export const cents = [0n, 1n, 2n, 3n, 7n, 33n, 50n, 99n, 100n, 100n, 101n, 250n, 1_000n, 1_000n, 12_345n, 99_999n]
export const mccs = ["5411", "5812", "6011", "4111"]

const agesMillis = [0, 0, 0, 0, -30_000, -minute, 1, minute, hour, hour, day, day, 2 * day, 13 * day, 33 * day]
const stormKinds: ReadonlyArray<Kind> = ["clearing", "clearing", "refund"]
const kinds: ReadonlyArray<Kind> = [
  ...["authorization", "authorization", "incremental_authorization"] as const,
  ...["clearing", "clearing", "clearing", "clearing", "clearing"] as const,
  ...["reversal", "refund", "refund", "refund", "refund"] as const
]

/** A spend event of any kind; it may refer to an event that does not exist yet, or be too far in the future. */
export const spend = (scenario: Scenario): Operation => {
  const { currency, ids, isStorm, random: { chance, pick } } = scenario
  const kind = isStorm && chance(0.8) ? pick(stormKinds) : pick(kinds)
  const original = originalOf(scenario, kind)
  return {
    op: "spend",
    user: chance(0.01) ? "ghost" : spender(scenario),
    kind,
    transaction: ids.transaction(kind),
    currency: chance(0.88) ? currency : pick(["USD", "EUR", "JPY"]),
    cents: pick(cents),
    mcc: pick(mccs),
    agoMillis: chance(0.01) ? -minute - 1 : pick(agesMillis),
    ...(original === undefined ? {} : { original }),
    later: chance(0.15)
  }
}

/** The transaction to which an event refers, which most clearings do not. */
const originalOf = ({ ids, random }: Scenario, kind: Kind): string | undefined => {
  if (kind === "refund") return ids.original("clearing")
  if (kind === "authorization" || (kind === "clearing" && random.chance(0.7))) return undefined
  return ids.original("authorization")
}
