import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { UserBalance } from "../Balance.ts"
import { NotFound } from "../Errors.ts"
import { UserId } from "../Ids.ts"
import { PageQuery } from "../Pagination.ts"
import { RewardPage } from "../Reward.ts"
import { Enrollment, ReferrerConflict, ReferrerNotEnrolled, User, UserStored } from "../User.ts"
import { Authorization, RequestShape } from "./Authorization.ts"

const params = { userId: UserId }

/** Enrollment, and what a user has. */
export class Users extends HttpApiGroup.make("users").add(
  HttpApiEndpoint.put("put", "/v1/users/:userId", {
    params,
    payload: Enrollment,
    success: UserStored,
    error: [ReferrerNotEnrolled, ReferrerConflict]
  }),
  HttpApiEndpoint.get("get", "/v1/users/:userId", {
    params,
    success: Schema.Struct({ user: User }),
    error: NotFound
  }),
  HttpApiEndpoint.get("balance", "/v1/users/:userId/balance", {
    params,
    success: UserBalance,
    error: NotFound
  }),
  HttpApiEndpoint.get("rewards", "/v1/users/:userId/rewards", {
    params,
    query: PageQuery,
    success: RewardPage
  })
).middleware(RequestShape).middleware(Authorization) {}
