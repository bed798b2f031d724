import type { AssetName } from "./Rules.ts"

export type State = "AwaitingFunding" | "Pending" | "Claimable" | "Paid" | "Refunded"

/** A reward of the model: a plain record that the rules change in place. */
export interface ModelReward {
  /** Number in order of creation. */
  readonly number: number
  readonly user: string
  readonly program: string
  readonly version: number
  readonly transaction: string
  readonly asset: AssetName
  readonly currency: string
  readonly spend: bigint
  readonly earned: bigint
  readonly claimableAt: number
  readonly createdAt: number
  readonly month: string
  readonly category: string | undefined
  state: State
  amount: bigint
  paid: bigint
  recovered: bigint
  clawedBack: bigint
  refundedSpend: bigint
  revision: number
  updatedAt: number
}

/** The terms of a reward that a purchase earns in one program. */
export type Earned = Pick<
  ModelReward,
  | "user"
  | "program"
  | "version"
  | "transaction"
  | "asset"
  | "currency"
  | "spend"
  | "earned"
  | "claimableAt"
  | "month"
  | "category"
>

/** A deposit, a withdrawal or, with a user, a claim. */
export interface Movement {
  readonly reference: string
  readonly asset: AssetName
  readonly amount: bigint
  readonly user?: string
}

export const unpaidOf = (reward: ModelReward): bigint =>
  reward.amount - reward.paid - reward.recovered + reward.clawedBack

/** The order in which rewards become Claimable and are paid. */
export const byAge = (left: ModelReward, right: ModelReward): number =>
  left.claimableAt - right.claimableAt || left.number - right.number
