import type { Answer } from "@card-rewards/testing/HttpExchange"
import {
  clearing,
  createEndpoint,
  createKey,
  enroll,
  hookUrl,
  moveMoney,
  november,
  publish,
  type Request,
  type Send,
  setClock,
  spend
} from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { Effect } from "effect"

type Case = (request: Send) => Effect.Effect<ReadonlyArray<Answer>, never, TestApi>

const one = <R>(answer: Effect.Effect<Answer, never, R>) => Effect.map(answer, (only) => [only])
const send = (...sent: Request): Case => (request) => one(request(...sent))

/** Sends all in order; what comes before the last ones only prepares. */
const last = (proofs: number, ...requests: ReadonlyArray<Request>): Case => (request) =>
  Effect.forEach(requests, (sent) => request(...sent)).pipe(Effect.map((answers) => answers.slice(-proofs)))

const purchase = { amount: { currency: "USD", amount: "12345" }, merchant: { descriptor: "Shop", mcc: "5411" } }

/**
 * What produces each declared answer that is the operation's own; each case is an integrator's first requests. An error
 * status needs one answer of every tag that it declares.
 */
export const cases: Readonly<Record<string, Case>> = {
  "GET /health 204": () => one(Effect.flatMap(TestApi, (api) => api.send("GET", "/health", { key: "" }))),

  "POST /v1/spend-events 202": last(2, enroll("ann"), spend(), spend()),
  "POST /v1/spend-events 403": last(1, spend({ integratorId: "somebody" })),
  "POST /v1/spend-events 409": last(1, enroll("ann"), spend(), spend({ amount: { currency: "USD", amount: "1" } })),
  "POST /v1/spend-events 422": last(
    2,
    enroll("ann"),
    spend({ occurredAt: "2099-01-01T00:00:00Z" }),
    spend({ userId: "nobody" })
  ),

  "POST /v1/spend-events/batch 200": last(1, enroll("ann"), ["POST", "/v1/spend-events/batch", {
    events: [
      clearing(),
      clearing(),
      clearing({ userId: "" }),
      clearing({ integratorId: "somebody" }),
      clearing({ amount: { currency: "USD", amount: "1" } }),
      clearing({ externalTransactionId: "t2", occurredAt: "2099-01-01T00:00:00Z" }),
      clearing({ userId: "nobody" })
    ]
  }]),

  "PUT /v1/users/{userId} 200": last(3, enroll("ann"), enroll("ann"), ["PUT", "/v1/users/ann", { tier: "gold" }]),
  "PUT /v1/users/{userId} 409": last(1, enroll("bob"), enroll("ann"), ["PUT", "/v1/users/ann", { referredBy: "bob" }]),
  "PUT /v1/users/{userId} 422": send("PUT", "/v1/users/ann", { referredBy: "nobody" }),
  "GET /v1/users/{userId} 200": last(1, enroll("ann"), ["GET", "/v1/users/ann"]),
  "GET /v1/users/{userId} 404": send("GET", "/v1/users/nobody"),
  "GET /v1/users/{userId}/balance 200": last(1, enroll("ann"), ["GET", "/v1/users/ann/balance"]),
  "GET /v1/users/{userId}/balance 404": send("GET", "/v1/users/nobody/balance"),
  "GET /v1/users/{userId}/rewards 200": send("GET", "/v1/users/nobody/rewards?limit=1"),
  "GET /v1/users/{userId}/rewards/{rewardId}/explanation 404": send(
    "GET",
    "/v1/users/nobody/rewards/rw%3Ax/explanation"
  ),
  "POST /v1/users/{userId}/quotes 200": last(1, publish("p", 1), setClock("2099-12-15T00:00:00.000Z"), enroll("ann"), [
    "POST",
    "/v1/users/ann/quotes",
    purchase
  ]),
  "POST /v1/users/{userId}/quotes 404": send("POST", "/v1/users/nobody/quotes", purchase),
  "POST /v1/users/{userId}/quotes 422": last(1, enroll("ann"), [
    "POST",
    "/v1/users/ann/quotes",
    { ...purchase, occurredAt: "2199-01-01T00:00:00Z" }
  ]),
  "GET /v1/users/{userId}/spend-events/{kind}/{externalTransactionId} 200": last(
    1,
    enroll("ann"),
    spend(),
    ["GET", "/v1/users/ann/spend-events/clearing/t1"]
  ),
  "GET /v1/users/{userId}/spend-events/{kind}/{externalTransactionId} 404": send(
    "GET",
    "/v1/users/ann/spend-events/clearing/t1"
  ),
  "GET /v1/vault 200": last(
    1,
    moveMoney("deposits", "d", "5"),
    ["PUT", "/v1/vault/low-funds/EURe", { threshold: "007" }],
    ["GET", "/v1/vault"]
  ),
  "PUT /v1/vault/low-funds/{asset} 200": send("PUT", "/v1/vault/low-funds/USDC", { threshold: "1" }),
  "DELETE /v1/vault/low-funds/{asset} 200": last(
    2,
    ["PUT", "/v1/vault/low-funds/USDC", { threshold: "1" }],
    ["DELETE", "/v1/vault/low-funds/USDC"],
    ["DELETE", "/v1/vault/low-funds/USDC"]
  ),
  "GET /v1/statements/{asset} 200": last(
    1,
    moveMoney("deposits", "d", "5"),
    ["GET", "/v1/statements/USDC?from=2026-01-01&to=2026-12-31"]
  ),
  "GET /v1/journal 200": last(1, moveMoney("deposits", "d", "5"), ["GET", "/v1/journal?limit=1000"]),
  "GET /v1/journal/seals/latest 404": send("GET", "/v1/journal/seals/latest"),
  "GET /v1/spend-events 200": send("GET", "/v1/spend-events?state=waiting&limit=1"),
  "GET /v1/spend-events/backlog 200": last(1, enroll("ann"), spend(), ["GET", "/v1/spend-events/backlog"]),
  "GET /v1/events 200": last(
    2,
    moveMoney("deposits", "d", "1"),
    ["GET", "/v1/events"],
    ["GET", "/v1/events?after=1&kind=reward.paid"]
  ),

  "PUT /v1/programs/{programId}/versions/{version} 200": last(2, publish("p", 1), publish("p", 1)),
  "PUT /v1/programs/{programId}/versions/{version} 409": last(1, publish("p", 1), publish("p", 1, { baseRate: 7 })),
  "PUT /v1/programs/{programId}/versions/{version} 422": last(1, publish("p", 1, { baseRate: -1 })),
  "GET /v1/programs 200": last(1, publish("p", 1), ["GET", "/v1/programs"]),
  "GET /v1/programs/{programId} 200": last(1, publish("p", 1), ["GET", "/v1/programs/p"]),
  "GET /v1/programs/{programId} 404": send("GET", "/v1/programs/none"),
  "POST /v1/programs/{programId}/simulations 200": last(
    1,
    publish("p", 1),
    ["POST", "/v1/programs/p/simulations", november]
  ),
  "POST /v1/programs/{programId}/simulations 400": last(
    2,
    publish("p", 1),
    ["POST", "/v1/programs/p/simulations", { ...november, more: 1 }],
    ["POST", "/v1/programs/p/simulations", { ...november, to: november.from }]
  ),
  "POST /v1/programs/{programId}/simulations 404": send("POST", "/v1/programs/none/simulations", november),

  "GET /v1/api-keys 200": send("GET", "/v1/api-keys"),
  "POST /v1/api-keys 201": last(2, createKey("k"), createKey("k")),
  "POST /v1/api-keys 422": last(1, ...Array.from({ length: 20 }, (_, index) => createKey(`k${index}`))),
  "DELETE /v1/api-keys/{name} 200": last(2, createKey("k"), ["DELETE", "/v1/api-keys/k"], ["DELETE", "/v1/api-keys/k"]),
  "DELETE /v1/api-keys/{name} 404": send("DELETE", "/v1/api-keys/none"),
  "DELETE /v1/api-keys/{name} 422": send("DELETE", "/v1/api-keys/default"),

  "GET /v1/webhook-endpoints 200": send("GET", "/v1/webhook-endpoints"),
  "POST /v1/webhook-endpoints 201": last(2, createEndpoint(), createEndpoint()),
  "POST /v1/webhook-endpoints 409": last(
    1,
    createEndpoint(),
    createEndpoint("e", `${hookUrl}/b`)
  ),
  "POST /v1/webhook-endpoints 422": last(
    2,
    createEndpoint(),
    createEndpoint("f"),
    createEndpoint("f", "http://127.0.0.1/")
  ),
  "GET /v1/webhook-endpoints/{id} 200": last(1, createEndpoint(), ["GET", "/v1/webhook-endpoints/e"]),
  "GET /v1/webhook-endpoints/{id} 404": send("GET", "/v1/webhook-endpoints/none"),
  "PATCH /v1/webhook-endpoints/{id} 200": last(
    1,
    createEndpoint(),
    ["PATCH", "/v1/webhook-endpoints/e", { url: `${hookUrl}/b` }]
  ),
  "PATCH /v1/webhook-endpoints/{id} 404": send("PATCH", "/v1/webhook-endpoints/none", { url: hookUrl }),
  "PATCH /v1/webhook-endpoints/{id} 422": last(
    1,
    createEndpoint(),
    ["PATCH", "/v1/webhook-endpoints/e", { url: "http://x" }]
  ),
  "DELETE /v1/webhook-endpoints/{id} 200": last(1, createEndpoint(), ["DELETE", "/v1/webhook-endpoints/e"]),
  "DELETE /v1/webhook-endpoints/{id} 404": send("DELETE", "/v1/webhook-endpoints/none"),
  "POST /v1/webhook-endpoints/{id}/rotate-secret 200": last(
    1,
    createEndpoint(),
    ["POST", "/v1/webhook-endpoints/e/rotate-secret"]
  ),
  "POST /v1/webhook-endpoints/{id}/rotate-secret 404": send("POST", "/v1/webhook-endpoints/none/rotate-secret"),
  "GET /v1/webhook-endpoints/{id}/deliveries 200": last(
    2,
    createEndpoint(),
    moveMoney("deposits", "d", "1"),
    ["GET", "/v1/webhook-endpoints/e/deliveries"],
    ["GET", "/v1/webhook-endpoints/e/deliveries?state=exhausted&limit=1"]
  ),
  "GET /v1/webhook-endpoints/{id}/deliveries 404": send("GET", "/v1/webhook-endpoints/none/deliveries"),
  "POST /v1/webhook-endpoints/{id}/deliveries/{eventId}/redeliver 202": redelivered,
  "POST /v1/webhook-endpoints/{id}/deliveries/{eventId}/redeliver 404": last(
    1,
    createEndpoint(),
    ["POST", "/v1/webhook-endpoints/e/deliveries/evt_x/redeliver"]
  ),
  "POST /v1/webhook-endpoints/{id}/replays 202": last(1, createEndpoint(), replay()),
  "POST /v1/webhook-endpoints/{id}/replays 404": send(...replay()),
  "POST /v1/webhook-endpoints/{id}/replays 422": last(
    1,
    createEndpoint(),
    ["POST", "/v1/webhook-endpoints/e/ping"],
    replay(),
    replay()
  ),
  "GET /v1/webhook-endpoints/{id}/replays/{replayId} 200": last(
    1,
    createEndpoint(),
    replay(),
    ["GET", "/v1/webhook-endpoints/e/replays/rpl_2"]
  ),
  "GET /v1/webhook-endpoints/{id}/replays/{replayId} 404": last(
    1,
    createEndpoint(),
    ["GET", "/v1/webhook-endpoints/e/replays/rpl_2"]
  ),
  "POST /v1/webhook-endpoints/{id}/ping 202": last(1, createEndpoint(), ["POST", "/v1/webhook-endpoints/e/ping"]),
  "POST /v1/webhook-endpoints/{id}/ping 404": send("POST", "/v1/webhook-endpoints/none/ping"),

  "GET /v1/sandbox/vault 200": send("GET", "/v1/sandbox/vault"),
  "POST /v1/sandbox/deposits 200": last(2, moveMoney("deposits", "r", "5"), moveMoney("deposits", "r", "5")),
  "POST /v1/sandbox/deposits 409": last(1, moveMoney("deposits", "r", "5"), moveMoney("deposits", "r", "6")),
  "POST /v1/sandbox/deposits 422": last(1, moveMoney("deposits", "r", "0")),
  "POST /v1/sandbox/withdrawals 200": last(
    2,
    moveMoney("deposits", "d", "5"),
    moveMoney("withdrawals", "r", "5"),
    moveMoney("withdrawals", "r", "5")
  ),
  "POST /v1/sandbox/withdrawals 409": last(1, moveMoney("deposits", "r", "5"), moveMoney("withdrawals", "r", "5")),
  "POST /v1/sandbox/withdrawals 422": last(1, moveMoney("withdrawals", "r", "5")),
  "POST /v1/sandbox/claims 409": last(
    1,
    enroll("ann"),
    moveMoney("deposits", "r", "5"),
    moveMoney("claims", "r", "5", { userId: "ann" })
  ),
  "POST /v1/sandbox/claims 422": last(
    2,
    enroll("ann"),
    moveMoney("claims", "r", "5", { userId: "ann" }),
    moveMoney("claims", "r", "5", { userId: "nobody" })
  ),
  "GET /v1/sandbox/clock 200": send("GET", "/v1/sandbox/clock"),
  "PUT /v1/sandbox/clock 200": send("PUT", "/v1/sandbox/clock", { now: "2090-01-01T00:00:00Z" }),
  "PUT /v1/sandbox/clock 422": last(
    1,
    ["PUT", "/v1/sandbox/clock", { now: "2090-01-01T00:00:00Z" }],
    ["PUT", "/v1/sandbox/clock", { now: "2080-01-01T00:00:00Z" }]
  )
}

/** Everything stored, delivered again. */
function replay(): Parameters<Send> {
  return ["POST", "/v1/webhook-endpoints/e/replays", { from: "2026-01-01T00:00:00Z" }]
}

/** A ping sent anew. */
function redelivered(request: Send) {
  return Effect.gen(function*() {
    yield* request(...createEndpoint())
    const { body } = yield* request("POST", "/v1/webhook-endpoints/e/ping")
    return [yield* request("POST", `/v1/webhook-endpoints/e/deliveries/${String(body["eventId"])}/redeliver`)]
  })
}
