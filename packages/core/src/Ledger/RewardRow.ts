import { printRewardId, type Reward, type RewardState } from "@card-rewards/domain/Reward"
import { printTimestamp } from "@card-rewards/domain/Time"
import type { Row } from "../Database/Table.ts"
import type * as Tables from "../Tables.ts"

/** A row of `rewards`; `creation` is its order of creation in the vault, from 1. */
export type RewardRow = Row<typeof Tables.rewards>

/** The columns of a reward that integrators see. */
export type ShownReward = Omit<RewardRow, "categoryId" | "purchaseAt" | "monthUsedBefore" | "categoryUsedBefore">

/** Map key of a reward within its integrator. Ids contain no NUL, so that two rewards never share a key. */
export const rewardKey = (
  reward: Pick<RewardRow, "userId" | "kind" | "externalTransactionId" | "programId">
): string => `${reward.userId}\0${reward.kind}\0${reward.externalTransactionId}\0${reward.programId}`

/** Returns a reward that the transaction has read or created. Throws where the key is unknown. */
export const presentReward = (rewards: ReadonlyMap<string, RewardRow>, key: string): RewardRow => {
  const row = rewards.get(key)
  if (row === undefined) throw new Error(`the reward ${key.replaceAll("\0", " ")} is not read`)
  return row
}

/** A reward as the API's list and the events show it. */
export const encodeReward = (row: ShownReward): typeof Reward.Encoded => {
  const createdAt = printTimestamp(row.createdAt)
  return {
    id: printRewardId(row),
    userId: row.userId,
    programId: row.programId,
    programVersion: row.programVersion,
    transaction: { kind: spendKind(row.kind), externalTransactionId: row.externalTransactionId },
    state: row.state satisfies RewardState,
    amount: { asset: row.asset, amount: row.amount.toString() },
    spend: { currency: row.currency, amount: row.spend.toString() },
    claimableAt: printTimestamp(row.claimableAt),
    createdAt,
    updatedAt: row.updatedAt === row.createdAt ? createdAt : printTimestamp(row.updatedAt),
    revision: row.revision,
    earned: row.earned.toString(),
    paid: row.paid.toString(),
    recovered: row.recovered.toString(),
    clawedBack: row.clawedBack.toString(),
    refundedSpend: row.refundedSpend.toString()
  }
}

/** Only clearings earn rewards. */
const spendKind = (kind: string): "clearing" => {
  if (kind === "clearing") return kind
  throw new Error(`a reward of a ${kind}`)
}
