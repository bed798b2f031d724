import { Schema } from "effect"
import { Reference, UserId, VaultId } from "./Ids.ts"
import { Amount, Asset, AssetAmount } from "./Money.ts"

/** What the vault has of one asset: `held` in all, `free` not reserved for rewards. */
export const VaultBalance = Schema.Struct({ asset: Asset, held: Amount, free: Amount })

/** Response of `GET /v1/sandbox/vault`. */
export const Vault = Schema.Struct({ vaultId: VaultId, balances: Schema.Array(VaultBalance) })
export type Vault = typeof Vault.Type

/** Request body of a deposit or withdrawal; `reference` is unique in the vault over all three operations. */
export const Simulation = Schema.Struct({ reference: Reference, amount: AssetAmount })
export type Simulation = typeof Simulation.Type

/** Request body of a claim. */
export const ClaimSimulation = Schema.Struct({ ...Simulation.fields, userId: UserId })
export type ClaimSimulation = typeof ClaimSimulation.Type

/** Response of the three operations; `duplicate` where this exact request was recorded before. */
export const SimulationRecorded = Schema.Struct({ reference: Reference, vaultId: VaultId, duplicate: Schema.Boolean })
export type SimulationRecorded = typeof SimulationRecorded.Type

/** 409: the reference was used with different content. */
export class SimulationConflict extends Schema.TaggedError<SimulationConflict>()("SimulationConflict", {
  message: Schema.String,
  reference: Schema.String
}, { httpApiStatus: 409 }) {}

/** 422: the vault refuses the request; the reference stays unused. */
export class SimulationRefused extends Schema.TaggedError<SimulationRefused>()("SimulationRefused", {
  message: Schema.String,
  reference: Schema.String
}, { httpApiStatus: 422 }) {}
