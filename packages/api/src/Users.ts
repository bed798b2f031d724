import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"

/** Enrollment, and what a user has. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "users",
  (handlers) =>
    handlers
      .handle("put", ({ params, payload }) => forIntegrator((id, { users }) => users.put(id, params.userId, payload)))
      .handle("get", ({ params }) =>
        forIntegrator((id, { users }) => Effect.map(users.get(id, params.userId), (user) => ({ user }))))
      .handle("balance", ({ params }) =>
        forIntegrator((id, { rewards }) =>
          Effect.map(rewards.balance(id, params.userId), (balance) => HttpServerResponse.jsonUnsafe(balance))))
      .handle("rewards", ({ params, query: { cursor, limit = defaultPageSize } }) =>
        forIntegrator((id, { rewards }) =>
          Effect.map(rewards.list(id, params.userId, { cursor, limit }), (page) =>
            HttpServerResponse.jsonUnsafe(page))))
      .handle("explanation", ({ params }) =>
        forIntegrator((id, { explanations }) =>
          Effect.map(explanations.explain(id, params.userId, params.rewardId), (explanation) =>
            HttpServerResponse.jsonUnsafe({ explanation }))))
      .handle("quotes", ({ params, payload }) =>
        forIntegrator((id, { quotes }) =>
          Effect.map(quotes.quote(id, params.userId, payload), (all) =>
            HttpServerResponse.jsonUnsafe({ quotes: all }))))
      .handle("spendEvent", ({ params }) =>
        forIntegrator((id, { spendEventStatuses }) =>
          Effect.map(spendEventStatuses.get(id, params), (spendEvent) =>
            HttpServerResponse.jsonUnsafe({ spendEvent }))))
)
