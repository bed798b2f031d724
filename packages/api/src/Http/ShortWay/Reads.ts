import { Rewards } from "@card-rewards/core/Rewards"
import type { UserBalance } from "@card-rewards/domain/Balance"
import { UserId } from "@card-rewards/domain/Ids"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect, Schema } from "effect"
import type { HttpServerRequest } from "effect/http"
import type { Way } from "../ShortWay.ts"

/** A user's balance, or rewards with a limit and a cursor at most. */
const path =
  /^\/v1\/users\/([^/?]+)\/(?:balance|rewards(?:\?limit=([1-9][0-9]?|100)(?:&cursor=(\w+))?|\?cursor=(\w+))?)$/

const isUserId = Schema.is(UserId)

/** `GET /v1/users/{userId}/balance` and `GET /v1/users/{userId}/rewards`. */
export const make = Effect.map(Rewards, (rewards) => {
  const balance = (userId: UserId): Way["answer"] => (integratorId) =>
    Effect.mapBoth(rewards.balance(integratorId, userId), {
      onSuccess: encodeBalance,
      onFailure: (refusal) => ({ refusal: { balance: refusal } })
    })
  const list = (userId: UserId, limit: number, cursor: string | undefined): Way["answer"] => (integratorId) =>
    Effect.mapError(
      rewards.list(integratorId, userId, { limit, cursor }),
      (refusal) => ({ refusal: { rewards: refusal } })
    )

  return (request: HttpServerRequest.HttpServerRequest): Way | undefined => {
    const [, segment, limit, nextCursor, firstCursor] = path.exec(request.url) ?? []
    if (segment === undefined) return undefined
    // the border has put the segment in one spelling: it can be decoded
    const userId = segment.includes("%") ? decodeURIComponent(segment) : segment
    if (!isUserId(userId)) return undefined
    const answer = request.url.endsWith("/balance")
      ? balance(userId)
      : list(userId, limit === undefined ? defaultPageSize : Number(limit), nextCursor ?? firstCursor)
    return { rateClass: "read", status: 200, answer }
  }
})

/** As the schema encodes it, which takes longer than to read it. */
const encodeBalance = ({ balances, userId }: UserBalance): typeof UserBalance.Encoded => ({
  userId,
  balances: balances.map((of) => ({
    asset: of.asset,
    expected: of.expected.toString(),
    pending: of.pending.toString(),
    claimable: of.claimable.toString(),
    paid: of.paid.toString(),
    owed: of.owed.toString(),
    awaitingFunding: of.awaitingFunding.toString()
  }))
})
