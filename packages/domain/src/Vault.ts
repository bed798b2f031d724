import { Schema } from "effect"
import { Reference, UserId, VaultId } from "./Ids.ts"
import { Amount, Asset, AssetAmount } from "./Money.ts"

/** The vault's balance in one asset: `held` in all, `free` not reserved for rewards. */
export const VaultBalance = Schema.Struct({ asset: Asset, held: Amount, free: Amount }).annotate({
  identifier: "VaultBalance",
  expected: "an object",
  description: "`held` is all money in the vault, `free` the part that is not reserved for rewards; smallest units."
})

/** Response of `GET /v1/sandbox/vault`. */
export const Vault = Schema.Struct({ vaultId: VaultId, balances: Schema.Array(VaultBalance) }).annotate({
  identifier: "Vault",
  expected: "an object",
  description: "The integrator's vault. Both assets always, USDC first."
})
export type Vault = typeof Vault.Type

/** The vault's money in one asset. */
export const VaultMoney = Schema.Struct({
  asset: Asset,
  held: Amount,
  free: Amount,
  reserved: Amount,
  waiting: Amount
}).annotate({
  identifier: "VaultMoney",
  description: "`held` is all money in the vault, `free` the part that is not reserved for rewards and `reserved` " +
    "the other one; `waiting` is what rewards that await funding need beyond it."
})

/** The threshold of an asset below which free money is low. */
export const LowFundsThreshold = Schema.Struct({ asset: Asset, threshold: Amount }).annotate({
  identifier: "LowFundsThreshold",
  description: "When the free money falls below `threshold`, there is an event `vault.low_funds`."
})
export type LowFundsThreshold = typeof LowFundsThreshold.Type

/** Response of `GET /v1/vault`. */
export const VaultStatus = Schema.Struct({
  vaultId: VaultId,
  balances: Schema.Array(VaultMoney),
  lowFunds: Schema.Array(LowFundsThreshold)
}).annotate({
  identifier: "VaultStatus",
  description: "The integrator's vault: its money in both assets, USDC first, and its thresholds."
})
export type VaultStatus = typeof VaultStatus.Type

/** Request body of `PUT /v1/vault/low-funds/{asset}`. */
export const LowFundsRequest = Schema.Struct({ threshold: Amount }).annotate({
  identifier: "LowFundsRequest",
  expected: "an object",
  description: "The threshold in the asset's smallest units."
})

/** Request body of a deposit or withdrawal. `reference` is unique in the vault over all three operations. */
export const VaultOperationRequest = Schema.Struct({ reference: Reference, amount: AssetAmount }).annotate({
  identifier: "VaultOperationRequest",
  expected: "an object",
  description: "A deposit or withdrawal. `reference` is unique in the vault over deposits, withdrawals and claims."
})
export type VaultOperationRequest = typeof VaultOperationRequest.Type

/** Request body of a claim. */
export const ClaimRequest = Schema.Struct({ ...VaultOperationRequest.fields, userId: UserId }).annotate({
  identifier: "ClaimRequest",
  expected: "an object",
  description: "A user's claim of part or all of the claimable amount."
})
export type ClaimRequest = typeof ClaimRequest.Type

/** Response of the three operations; `duplicate` if exactly this request was recorded before. */
export const SimulationRecorded = Schema.Struct({
  reference: Reference,
  vaultId: VaultId,
  duplicate: Schema.Boolean
}).annotate({
  identifier: "SimulationRecorded",
  expected: "an object",
  description: "Recorded. `duplicate` is true when this exact request was already recorded; nothing changed."
})
export type SimulationRecorded = typeof SimulationRecorded.Type

/** 409: the reference was used with different content. */
export class SimulationConflict extends Schema.TaggedError<SimulationConflict>()("SimulationConflict", {
  message: Schema.String,
  reference: Schema.String
}, { httpApiStatus: 409 }) {}

/** 422: the vault refuses the request; the reference can be used again. */
export class SimulationRefused extends Schema.TaggedError<SimulationRefused>()("SimulationRefused", {
  message: Schema.String,
  reference: Schema.String
}, { httpApiStatus: 422 }) {}
