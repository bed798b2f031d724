import { Schema } from "effect"
import { UserId } from "./Ids.ts"
import { Amount, Asset } from "./Money.ts"

/** What a user has in one asset, in smallest units (contract, section 2.4; decisions, section 6). */
export const AssetBalance = Schema.Struct({
  asset: Asset,
  expected: Amount,
  pending: Amount,
  claimable: Amount,
  paid: Amount,
  owed: Amount,
  awaitingFunding: Amount
})
export type AssetBalance = typeof AssetBalance.Type

/** Response of `GET /v1/users/{userId}/balance`: both assets always, USDC first. */
export const UserBalance = Schema.Struct({ userId: UserId, balances: Schema.Array(AssetBalance) })
export type UserBalance = typeof UserBalance.Type
