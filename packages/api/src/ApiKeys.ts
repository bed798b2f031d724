import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"

/** The integrator's keys. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "apiKeys",
  (handlers) =>
    handlers
      .handle("list", () => forIntegrator((id, { apiKeys }) => Effect.map(apiKeys.list(id), (keys) => ({ keys }))))
      .handle("create", ({ payload }) => forIntegrator((id, { apiKeys }) => apiKeys.create(id, payload.name)))
      .handle("revoke", ({ params }) =>
        forIntegrator((id, { apiKeys }) => Effect.map(apiKeys.revoke(id, params.name), (key) => ({ key }))))
)
