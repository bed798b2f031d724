import { Schema } from "effect"
import { UserId } from "./Ids.ts"
import { Amount, Asset } from "./Money.ts"

/** A user's balance in one asset, in smallest units (contract, section 2.4; decisions, section 6). */
export const AssetBalance = Schema.Struct({
  asset: Asset,
  expected: Amount,
  pending: Amount,
  claimable: Amount,
  paid: Amount,
  owed: Amount,
  awaitingFunding: Amount
}).annotate({
  identifier: "AssetBalance",
  expected: "an object",
  description: "A user's balance in one asset, in its smallest units: `expected` from open authorizations, `pending` " +
    "in the holding period, `claimable` now, `paid` out, `owed` back after refunds of paid rewards, " +
    "`awaitingFunding` until the vault has free money."
})
export type AssetBalance = typeof AssetBalance.Type

/** Response of `GET /v1/users/{userId}/balance`: both assets always, USDC first. */
export const UserBalance = Schema.Struct({ userId: UserId, balances: Schema.Array(AssetBalance) }).annotate({
  identifier: "UserBalance",
  expected: "an object",
  description: "Both assets always, USDC first."
})
export type UserBalance = typeof UserBalance.Type
