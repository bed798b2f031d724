import { Explanations } from "@card-rewards/core/Explanations"
import { Rewards } from "@card-rewards/core/Rewards"
import { Users } from "@card-rewards/core/Users"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import type { RewardPage } from "@card-rewards/domain/Reward"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import * as ShortWay from "./Http/ShortWay.ts"

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
      .handle("balance", ({ params }) =>
        forIntegrator((id) => ShortWay.unlessRefused("balance", rewards.balance(id, params.userId))))
      .handle("rewards", ({ params, query: { cursor, limit = defaultPageSize } }) =>
        forIntegrator((id) =>
          Effect.map(ShortWay.unlessRefused("rewards", rewards.list(id, params.userId, { cursor, limit })), json)))
      .handle("explanation", ({ params }) =>
        forIntegrator((id) =>
          Effect.map(explanations.explain(id, params.userId, params.rewardId), (explanation) => ({ explanation }))))
  })
)

/** What is written as it is: to decode and encode every reward of a page again would take longer than all the rest. */
const json = (body: typeof RewardPage.Encoded) => HttpServerResponse.jsonUnsafe(body)
