import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Amount, Asset } from "../Money.ts"
import { LowFundsRequest, LowFundsThreshold, VaultStatus } from "../Vault.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

const params = { asset: Asset }

/** The integrator's vault, in both environments. */
export class Vault extends HttpApiGroup.make("vault").add(
  HttpApiEndpoint.get("get", "/v1/vault", {
    success: Schema.Struct({ vault: VaultStatus }).annotate({ description: "The vault." })
  }).annotateMerge(OpenApi.annotations({
    summary: "Read the vault",
    description: "The money in the vault: held in all, free, reserved for rewards, and what waiting rewards need."
  })),
  HttpApiEndpoint.put("setLowFunds", "/v1/vault/low-funds/:asset", {
    params,
    payload: LowFundsRequest,
    success: LowFundsThreshold
  }).annotateMerge(OpenApi.annotations({
    summary: "Set the threshold of low funds",
    description: "When the free money of the asset falls below the threshold, there is one event `vault.low_funds`, " +
      "and the next one only after it was at or above the threshold. Setting it causes no event by itself."
  })),
  HttpApiEndpoint.delete("removeLowFunds", "/v1/vault/low-funds/:asset", {
    params,
    success: Schema.Struct({ asset: Asset, threshold: Schema.optionalKey(Amount) }).annotate({
      description: "The removed threshold; absent where there was none."
    })
  }).annotateMerge(OpenApi.annotations({
    summary: "Remove the threshold of low funds",
    description: "There are no further events `vault.low_funds` of the asset."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "The vault from which rewards are paid.") {}
