import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { UserBalance } from "../Balance.ts"
import { NotFound } from "../Errors.ts"
import { Explanation } from "../Explanation.ts"
import { text, TransactionId, UserId } from "../Ids.ts"
import { PageQuery } from "../Pagination.ts"
import { RewardPage } from "../Reward.ts"
import { Quote, QuoteRequest } from "../Quote.ts"
import { EventInFuture, SpendEventKind } from "../SpendEvent.ts"
import { SpendEventStatus } from "../SpendEventStatus.ts"
import { Enrollment, ReferrerConflict, ReferrerNotEnrolled, User, UserStored } from "../User.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

const params = { userId: UserId }

/** Enrollment, balances and rewards of users. */
export class Users extends HttpApiGroup.make("users").add(
  HttpApiEndpoint.put("put", "/v1/users/:userId", {
    params,
    payload: Enrollment,
    success: UserStored,
    error: [ReferrerNotEnrolled, ReferrerConflict]
  }).annotateMerge(OpenApi.annotations({
    summary: "Enroll or update a user",
    description: "Creates the user or replaces the attributes; an omitted attribute is cleared. `referredBy` must be " +
      "a user that was enrolled earlier. It is set once, at enrollment: later requests omit it or repeat it. The " +
      "same request again changes nothing (`unchanged`)."
  })),
  HttpApiEndpoint.get("get", "/v1/users/:userId", {
    params,
    success: Schema.Struct({ user: User }).annotate({ description: "The user." }),
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Read a user",
    description: "The user with its present attributes."
  })),
  HttpApiEndpoint.get("balance", "/v1/users/:userId/balance", {
    params,
    success: UserBalance,
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Read a user's balance",
    description: "The user's present balance in each asset, in the asset's smallest units."
  })),
  HttpApiEndpoint.get("rewards", "/v1/users/:userId/rewards", {
    params,
    query: PageQuery,
    success: RewardPage
  }).annotateMerge(OpenApi.annotations({
    summary: "List a user's rewards",
    description: "Newest first. Pass a page's `next` as `cursor` to get the following page. Use it to rebuild a " +
      "user's state after missed webhooks. A user who is not enrolled has none."
  })),
  HttpApiEndpoint.get("explanation", "/v1/users/:userId/rewards/:rewardId/explanation", {
    params: { ...params, rewardId: text(1, 1_024) },
    success: Schema.Struct({ explanation: Explanation }).annotate({ description: "The explanation." }),
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Explain a reward",
    description: "How the amount was computed: version, attributes, rate, bonuses, caps, refunds and recoveries."
  })),
  HttpApiEndpoint.post("quotes", "/v1/users/:userId/quotes", {
    params,
    payload: QuoteRequest,
    success: Schema.Struct({ quotes: Schema.Array(Quote) }).annotate({ description: "The quotes." }),
    error: [NotFound, EventInFuture]
  }).annotateMerge(OpenApi.annotations({
    summary: "Quote a purchase",
    description: "What a clearing of the purchase would earn in each program now, without storing anything. Events " +
      "that are stored and not processed yet do not count towards caps."
  })),
  HttpApiEndpoint.get("spendEvent", "/v1/users/:userId/spend-events/:kind/:externalTransactionId", {
    params: { ...params, kind: SpendEventKind, externalTransactionId: TransactionId },
    success: Schema.Struct({ spendEvent: SpendEventStatus }).annotate({ description: "The event." }),
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Read a spend event",
    description: "The event with its state, and of an applied clearing what it earned in each program, or why it " +
      "earned nothing there. The outcome is that of the moment when the event was applied: later versions and " +
      "refunds do not change it."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "Enrollment, balances and rewards of users.") {}
