import type { Asset } from "@card-rewards/domain/Money"
import type { Reward, RewardState } from "@card-rewards/domain/Reward"
import { dayMillis } from "@card-rewards/domain/Time"
import type { Fold, VaultPoint } from "./Fold.ts"

/** The vault at `count` evenly spaced instants of a window, the last one its end. */
export const sample = (
  points: ReadonlyArray<VaultPoint>,
  from: number,
  to: number,
  count: number
): ReadonlyArray<VaultPoint> => {
  const step = (to - from) / (count - 1)
  let index = -1
  return Array.from({ length: count }, (_, position) => {
    const at = Math.round(from + position * step)
    while (index + 1 < points.length && (points[index + 1]?.at ?? Infinity) <= at) index++
    const point = points[index]
    return point === undefined ? { at, held: 0n, free: 0n, reserved: 0n, waiting: 0n } : { ...point, at }
  })
}

/** How long free money lasts at the recent rate of spending. */
export interface Runway {
  /** Days over which the rate is averaged, at most {@link paceDays}. */
  readonly days: number
  /** What new rewards reserve per day, in smallest units. */
  readonly perDay: bigint
  /** When free money is used up; undefined at a rate of zero, or beyond ten years. */
  readonly until: number | undefined
}

/** The longest period over which the rate is averaged. */
export const paceDays = 30

export const runway = (fold: Fold, asset: Asset, free: bigint, now: number): Runway | undefined => {
  const earliest = now - paceDays * dayMillis
  let first = Infinity
  let earned = 0n
  for (const reward of fold.rewards.values()) {
    if (reward.amount.asset !== asset || reward.createdAt < earliest) continue
    earned += reward.amount.amount
    first = Math.min(first, reward.createdAt)
  }
  if (earned === 0n) return undefined
  const days = Math.max(1, Math.ceil((now - first) / dayMillis))
  const perDay = earned / BigInt(days)
  const millis = perDay === 0n ? Infinity : (Number((free * 1_000n) / perDay) / 1_000) * dayMillis
  return { days, perDay, until: millis > 3_650 * dayMillis ? undefined : now + millis }
}

/** Rewards created in a period, by their present state. */
export interface Cohort {
  readonly from: number
  readonly to: number
  readonly amounts: Readonly<Record<RewardState, bigint>>
  readonly counts: Readonly<Record<RewardState, number>>
}

export const rewardStates: ReadonlyArray<RewardState> = [
  "Paid",
  "Claimable",
  "Pending",
  "AwaitingFunding",
  "Refunded"
]

/** The amount of a reward in the chart; a refunded reward counts what it had earned. */
const amountOf = (reward: Reward): bigint => (reward.state === "Refunded" ? reward.earned : reward.amount.amount)

/** Cohorts of the window; their period is the shortest of the list with which there are at most 45. */
export const cohorts = (fold: Fold, asset: Asset, from: number, to: number): ReadonlyArray<Cohort> => {
  const span = [1, 2, 7, 14, 30, 90, 365].find((days) => (to - from) / dayMillis / days <= 45) ?? 3_650
  const size = span * dayMillis
  const start = Math.floor(from / dayMillis) * dayMillis
  const list = Array.from({ length: Math.max(1, Math.ceil((to - start) / size)) }, (_, index) => ({
    from: start + index * size,
    to: start + (index + 1) * size,
    amounts: { Paid: 0n, Claimable: 0n, Pending: 0n, AwaitingFunding: 0n, Refunded: 0n },
    counts: { Paid: 0, Claimable: 0, Pending: 0, AwaitingFunding: 0, Refunded: 0 }
  }))
  for (const reward of fold.rewards.values()) {
    const cohort = list[Math.floor((reward.createdAt - start) / size)]
    if (cohort === undefined || reward.amount.asset !== asset) continue
    cohort.amounts[reward.state] += amountOf(reward)
    cohort.counts[reward.state]++
  }
  return list
}

/** The sums of an asset's rewards by step, in smallest units. */
export interface Funnel {
  readonly count: number
  readonly earned: bigint
  readonly refunded: bigint
  readonly waiting: bigint
  readonly pending: bigint
  readonly claimable: bigint
  readonly paid: bigint
  readonly recovered: bigint
  readonly owed: bigint
}

export const funnel = (fold: Fold, asset: Asset): Funnel => {
  const sum = {
    count: 0,
    earned: 0n,
    refunded: 0n,
    waiting: 0n,
    pending: 0n,
    claimable: 0n,
    paid: 0n,
    recovered: 0n,
    owed: 0n
  }
  for (const reward of fold.rewards.values()) {
    if (reward.amount.asset !== asset) continue
    const left = reward.amount.amount - reward.paid - reward.recovered + reward.clawedBack
    sum.count++
    sum.earned += reward.earned
    sum.refunded += reward.earned - reward.amount.amount
    sum.paid += reward.paid
    sum.recovered += reward.recovered
    sum.owed += reward.clawedBack - reward.recovered
    if (reward.state === "AwaitingFunding") sum.waiting += left
    if (reward.state === "Pending") sum.pending += left
    if (reward.state === "Claimable") sum.claimable += left
  }
  return sum
}
