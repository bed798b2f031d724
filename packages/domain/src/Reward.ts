import { Schema } from "effect"
import { type IntegratorId, ProgramId, TransactionId, UserId } from "./Ids.ts"
import type { Account, Move } from "./Journal.ts"
import { Amount, AssetAmount, Cents, StoredAmount } from "./Money.ts"
import { SpendEventKind } from "./SpendEvent.ts"
import { Timestamp } from "./Time.ts"

/** The states of a reward (decisions, section 6). */
export const RewardState = Schema.Literals(["AwaitingFunding", "Pending", "Claimable", "Paid", "Refunded"])
export type RewardState = typeof RewardState.Type

/**
 * A reward as the integrator sees it (contract, section 2.5; decisions, section 6). `amount` is net of refunds;
 * `unpaid = amount − paid − recovered + clawedBack`. Amounts are smallest units of `amount.asset`, `refundedSpend`
 * is minor units of `spend.currency`.
 */
export const Reward = Schema.Struct({
  id: Schema.String,
  userId: UserId,
  programId: ProgramId,
  programVersion: Schema.Int,
  transaction: Schema.Struct({ kind: SpendEventKind, externalTransactionId: TransactionId }),
  state: RewardState,
  amount: AssetAmount,
  spend: StoredAmount,
  claimableAt: Timestamp,
  createdAt: Timestamp,
  updatedAt: Timestamp,
  revision: Schema.Int,
  earned: Amount,
  paid: Amount,
  recovered: Amount,
  clawedBack: Amount,
  refundedSpend: Cents
}).annotate({
  identifier: "Reward",
  expected: "an object",
  description: "A reward as its latest event describes it. `amount` is net of refunds; `revision` grows by one at " +
    "each change; `earned`, `paid`, `recovered` and `clawedBack` are smallest units of `amount.asset`, " +
    "`refundedSpend` minor units of `spend.currency`."
})
export type Reward = typeof Reward.Type

/** Formats a reward's id. Parsing it requires the user's id, because a user id may contain colons. */
export const printRewardId = (reward: {
  readonly integratorId: IntegratorId
  readonly userId: string
  readonly kind: string
  readonly externalTransactionId: string
  readonly programId: string
}): string =>
  `rw:${reward.integratorId}:${reward.userId}:${reward.kind}:${reward.externalTransactionId}:${reward.programId}`

/** A page of rewards, newest first. */
export const RewardPage = Schema.Struct({
  rewards: Schema.Array(Reward),
  next: Schema.optionalKey(Schema.String)
}).annotate({
  identifier: "RewardPage",
  expected: "an object",
  description: "Rewards, newest first. `next` is absent on the last page."
})
export type RewardPage = typeof RewardPage.Type

/** The amounts of a reward that change, and those that its changes depend on. Smallest units; spend in minor units. */
export interface RewardMoney {
  readonly state: RewardState
  readonly earned: bigint
  readonly amount: bigint
  readonly paid: bigint
  readonly recovered: bigint
  readonly clawedBack: bigint
  readonly spend: bigint
  readonly refundedSpend: bigint
}

/** The kinds of reward events. */
export type RewardEventKind =
  | "reward.pending"
  | "reward.awaiting_funding"
  | "reward.claimable"
  | "reward.recovered"
  | "reward.paid"
  | "reward.refunded"

/** A change of one reward: its new amounts, the journal entries of the change and its event. */
export interface RewardChange {
  readonly money: RewardMoney
  readonly moves: ReadonlyArray<Move>
  readonly event: RewardEventKind
}

/** The part of a reward that is neither paid nor recovered. */
export const unpaid = (money: Pick<RewardMoney, "amount" | "paid" | "recovered" | "clawedBack">): bigint =>
  money.amount - money.paid - money.recovered + money.clawedBack

/** A new reward: it is reserved if the free money covers it, or else awaits funding. */
export const earn = (earned: bigint, spend: bigint, free: bigint): RewardChange => {
  const isFunded = free >= earned
  return {
    money: {
      state: isFunded ? "Pending" : "AwaitingFunding",
      earned,
      amount: earned,
      paid: 0n,
      recovered: 0n,
      clawedBack: 0n,
      spend,
      refundedSpend: 0n
    },
    moves: [
      isFunded
        ? { from: "free", to: "pending", amount: earned }
        : { from: "promised", to: "awaitingFunding", amount: earned }
    ],
    event: isFunded ? "reward.pending" : "reward.awaiting_funding"
  }
}

/** Reserves a reward that awaits funding, from free money that covers it or from money that was assigned to it. */
export const fund = (money: RewardMoney, from: "free" | "assigned"): RewardChange => ({
  money: { ...money, state: "Pending" },
  moves: moves(["awaitingFunding", "pending", money.amount], [from, "promised", money.amount]),
  event: "reward.pending"
})

/** Ends the holding period: recovers what the user owes; the rest becomes claimable. */
export const mature = (money: RewardMoney, owed: bigint): RewardChange => {
  const due = unpaid(money)
  const recovered = owed < due ? owed : due
  const left = due - recovered
  return {
    money: { ...money, state: left === 0n ? "Paid" : "Claimable", recovered: money.recovered + recovered },
    moves: moves(["pending", "claimable", left], ["pending", "free", recovered], ["owed", "clawedBack", recovered]),
    event: left === 0n ? "reward.recovered" : "reward.claimable"
  }
}

/** Pays `paid` of a claimable reward, which is at most its unpaid part. */
export const pay = (money: RewardMoney, paid: bigint): RewardChange => {
  const next = { ...money, paid: money.paid + paid }
  return {
    money: { ...next, state: unpaid(next) === 0n ? "Paid" : money.state },
    moves: moves(["claimable", "paid", paid]),
    event: "reward.paid"
  }
}

/**
 * The part of an earned amount that remains after refunds of `refunded` of `spend`; refunds above the spend count as
 * the spend. It is computed from totals, so that several refunds take as much as one of their sum.
 */
export const netOfRefunds = (earned: bigint, spend: bigint, refunded: bigint): bigint =>
  refunded >= spend ? 0n : earned * (spend - refunded) / spend

/**
 * Applies refunds that add up to `refundedTotal`. They reduce the unpaid part first; what was paid already becomes
 * owed. Undefined if nothing changes (decisions, section 5.8).
 */
export const refund = (money: RewardMoney, refundedTotal: bigint): RewardChange | undefined => {
  const refundedSpend = refundedTotal < money.spend ? refundedTotal : money.spend
  if (refundedSpend === money.refundedSpend) return undefined
  const amount = netOfRefunds(money.earned, money.spend, refundedSpend)
  const reduction = money.amount - amount
  const before = unpaid(money)
  const released = reduction < before ? reduction : before
  const owed = reduction - released
  const next = { ...money, amount, refundedSpend, clawedBack: money.clawedBack + owed }
  const state = amount === 0n ? "Refunded" : unpaid(next) === 0n ? "Paid" : money.state
  return {
    money: { ...next, state },
    moves: moves(...releases(money.state, released), ["clawedBack", "owed", owed]),
    event: "reward.refunded"
  }
}

const releases = (state: RewardState, amount: bigint): ReadonlyArray<readonly [Account, Account, bigint]> => {
  switch (state) {
    case "AwaitingFunding":
      return [["awaitingFunding", "promised", amount]]
    case "Pending":
      return [["pending", "free", amount]]
    case "Claimable":
      return [["claimable", "free", amount]]
    case "Paid":
    case "Refunded":
      return []
  }
}

const moves = (...entries: ReadonlyArray<readonly [Account, Account, bigint]>): ReadonlyArray<Move> =>
  entries.filter(([, , amount]) => amount > 0n).map(([from, to, amount]) => ({ from, to, amount }))
