import type { Operation, Sum } from "../Operation.ts"
import { day, type Scenario, spender } from "./Scenario.ts"
import { cents, mccs } from "./Spends.ts"

/** A move of the vault's money, mostly of the sum that makes a difference. */
export const movement = (scenario: Scenario, op: "deposit" | "withdraw" | "claim"): Operation => {
  const { asset, ids, random: { chance, pick } } = scenario
  return {
    op,
    asset: chance(0.85) ? asset : pick(["USDC", "EURe"]),
    user: chance(0.02) ? "ghost" : spender(scenario),
    reference: ids.reference(),
    amount: amountOf(scenario)
  }
}

const amountOf = ({ isStorm, random: { chance, pick }, unit }: Scenario): Sum => {
  if (isStorm && chance(0.5)) return "first"
  if (chance(0.15)) return pick<Sum>(["first-1", "first+1", 0n])
  return pick<Sum>(["first", "first", "first", "half", "half", unit * 10n, unit * 300n, 1n])
}

/** A purchase whose reward is paid and that then is refunded, and mostly one whose reward recovers what is owed. */
export const refundOfPaid = ({ asset, currency, ids, owner, random }: Scenario): ReadonlyArray<Operation> => {
  const { chance, pick } = random
  const event = { op: "spend" as const, user: owner, currency, mcc: pick(mccs), agoMillis: 0, later: false }
  const bought = ids.transaction("clearing")
  const another = () => ({
    ...event,
    kind: "clearing" as const,
    transaction: ids.transaction("clearing"),
    cents: pick(cents),
    later: chance(0.5)
  })
  return [
    { ...event, kind: "clearing", transaction: bought, cents: 12_345n },
    { op: "clock", to: pick([0, day, 14 * day]) },
    { op: "deposit", asset, user: "", reference: ids.newReference(), amount: "first" },
    { op: "claim", asset, user: owner, reference: ids.newReference(), amount: "first" },
    {
      ...event,
      kind: "refund",
      transaction: ids.transaction("refund"),
      cents: pick(cents),
      original: bought,
      later: chance(0.5)
    },
    ...(chance(0.7) ? [another()] : []),
    { op: "clock", to: pick<"claimable" | number>(["claimable", 14 * day]) }
  ]
}
