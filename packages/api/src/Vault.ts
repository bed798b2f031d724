import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"

/** The integrator's vault. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "vault",
  (handlers) =>
    handlers
      .handle("get", () => forIntegrator((id, { vault }) => Effect.map(vault.status(id), (vault) => ({ vault }))))
      .handle("setLowFunds", ({ params: { asset }, payload: { threshold } }) =>
        forIntegrator((id, { vault }) => vault.setLowFunds(id, asset, threshold)))
      .handle("removeLowFunds", ({ params: { asset } }) =>
        forIntegrator((id, { vault }) => vault.removeLowFunds(id, asset)))
)
