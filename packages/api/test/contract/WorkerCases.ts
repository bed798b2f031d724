import { processAll, sealAll } from "@card-rewards/testing/EventProcessing"
import { definition, moveMoney, november, type Send, spend } from "@card-rewards/testing/Requests"
import { Effect } from "effect"
import { earn } from "./Earning.ts"

/** The claim of a part, twice by the same request. */
const claim = Effect.fnUntraced(function*(request: Send) {
  yield* earn(request)
  const sent = moveMoney("claims", "c", "1000", { userId: "ann" })
  return [yield* request(...sent), yield* request(...sent)]
})

/** The explanation of a reward. */
const explained = Effect.fnUntraced(function*(request: Send) {
  yield* earn(request)
  const { body } = yield* request("GET", "/v1/users/ann/rewards")
  const [, id = ""] = /"id":"([^"]+)"/.exec(JSON.stringify(body)) ?? []
  return [yield* request("GET", `/v1/users/ann/rewards/${encodeURIComponent(id)}/explanation`)]
})

/** Two purchases, of which the api under test simulates one, and candidates that are refused. */
const simulated = Effect.fnUntraced(function*(request: Send) {
  yield* earn(request)
  yield* request(...spend({ externalTransactionId: "t2", occurredAt: "2099-12-03T00:00:00Z" }))
  yield* processAll
  const december = { ...november, to: "2100-01-01T00:00:00Z" }
  const refused = { ...december, definition: { ...definition(), asset: "EURe", baseRat: 1 } }
  const path = "/v1/programs/p/simulations"
  return [yield* request("POST", path, december), yield* request("POST", path, refused)]
})

/** A seal that the worker has made. */
const sealed = (path: string) =>
  Effect.fnUntraced(function*(request: Send) {
    yield* request(...moveMoney("deposits", "d", "5"))
    yield* sealAll
    return [yield* request("GET", path)]
  })

/** Cases that need what the worker does. */
export const workerCases = {
  "GET /v1/journal/seals 200": sealed("/v1/journal/seals?limit=1000"),
  "GET /v1/journal/seals/latest 200": sealed("/v1/journal/seals/latest"),
  "POST /v1/programs/{programId}/simulations 422": simulated,
  "POST /v1/sandbox/claims 202": claim,
  "GET /v1/users/{userId}/rewards/{rewardId}/explanation 200": explained
}
export const workerCase = (name: string) => Object.entries(workerCases).find(([key]) => key === name)?.[1]
