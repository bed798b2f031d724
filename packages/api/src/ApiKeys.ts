import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import { Services } from "./Services.ts"

/** The integrator's keys. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "apiKeys",
  Effect.fnUntraced(function*(handlers) {
    const { apiKeys } = yield* Services
    return handlers
      .handle("list", () => forIntegrator((id) => Effect.map(apiKeys.list(id), (keys) => ({ keys }))))
      .handle("create", ({ payload }) => forIntegrator((id) => apiKeys.create(id, payload.name)))
      .handle("revoke", ({ params }) =>
        forIntegrator((id) => Effect.map(apiKeys.revoke(id, params.name), (key) => ({ key }))))
  })
)
