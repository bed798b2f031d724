import { Explanations } from "@card-rewards/core/Explanations"
import { Rewards } from "@card-rewards/core/Rewards"
import { Users } from "@card-rewards/core/Users"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"

/** Enrollment, and what a user has. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "users",
  Effect.fnUntraced(function*(handlers) {
    const users = yield* Users
    const rewards = yield* Rewards
    const explanations = yield* Explanations
    return handlers
      .handle("put", ({ params, payload }) => forIntegrator((id) => users.put(id, params.userId, payload)))
      .handle("get", ({ params }) =>
        forIntegrator((id) => Effect.map(users.get(id, params.userId), (user) => ({ user }))))
      .handle("balance", ({ params }) => forIntegrator((id) => rewards.balance(id, params.userId)))
      .handle("rewards", ({ params, query: { cursor, limit = defaultPageSize } }) =>
        forIntegrator((id) => rewards.list(id, params.userId, { cursor, limit })))
      .handle("explanation", ({ params }) =>
        forIntegrator((id) =>
          Effect.map(explanations.explain(id, params.userId, params.rewardId), (explanation) => ({ explanation }))))
  })
)
