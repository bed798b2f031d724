import { clearing, definition, type Request, usdc } from "@card-rewards/testing/Requests"

/**
 * The ids of these two print alike: `rw:victim:a:clearing:b:…` is a reward of `victim`'s user `a:clearing:b`, and of
 * user `clearing:b` of `victim:a`. Within one integrator user `a` with transaction `b:clearing:c` prints like user
 * `a:clearing:b` with `c`.
 */
export const victim = "victim"
export const attacker = "victim:a"
export const users = ["a:clearing:b", "a"] as const
export const transactions = ["c", "b:clearing:c"] as const
export const attackersUser = "clearing:b"

export const of = encodeURIComponent
const url = "https://hooks.example.com/victim"
const now = "2100-01-01T00:00:00.000Z"
const program = definition({ holdingPeriodDays: 0, categories: [], categoryRates: [] })
/** Refunds leave room under its cap for later purchases. */
const candidate = { ...program, caps: { perMonth: "500", categories: [] } }
const usd = (amount: string) => ({ currency: "USD", amount })
export const spend = (
  integratorId: string,
  userId: string,
  externalTransactionId: string,
  changes: object = {}
): Request => [
  "POST",
  "/v1/spend-events",
  clearing({ integratorId, userId, externalTransactionId, occurredAt: "2099-12-02T00:00:00.000Z", ...changes })
]
const refund = (integratorId: string, userId: string, externalTransactionId: string, originalTransactionId: string) =>
  spend(integratorId, userId, externalTransactionId, { kind: "refund", originalTransactionId, amount: usd("3") })

/** Something of everything. */
export const belongings: ReadonlyArray<Request> = [
  ...users.map((user): Request => ["PUT", `/v1/users/${of(user)}`, { tier: "secret tier", segment: "secret segment" }]),
  ["PUT", "/v1/programs/p/versions/1", program],
  ["PUT", "/v1/sandbox/clock", { now }],
  ["POST", "/v1/sandbox/deposits", { reference: "d", amount: usdc("9000000") }],
  ["POST", "/v1/webhook-endpoints", { id: "e", url }],
  ["POST", "/v1/webhook-endpoints/e/ping"],
  ["POST", "/v1/api-keys", { name: "k" }],
  ...users.map((user, index) => spend(victim, user, transactions[index] ?? "")),
  refund(victim, "a", "waiting", "never"),
  refund(victim, "a", "waiting too", "never")
]

/** What a processed purchase makes possible: a refund of a paid reward, its recovery, and an open authorization. */
export const laterBelongings: ReadonlyArray<Request> = [
  ["POST", "/v1/sandbox/claims", { reference: "k", amount: usdc("1234500"), userId: users[0] }],
  refund(victim, users[0], "refunded", "c"),
  spend(victim, users[0], "recovering"),
  spend(victim, users[0], "held", { kind: "authorization" }),
  refund(victim, users[0], "waiting", "batched")
]

/** What the attacker knows of the victim: everything that prints. */
export interface Known {
  readonly eventId: string
  readonly rewardId: string
  readonly rewardsCursor: string
  readonly deliveriesCursor: string
  readonly eventsCursor: string
  readonly waitingCursor: string
}

type Attack = (known: Known) => ReadonlyArray<Request>

/** For the victim's users and the attacker's own. */
const eachUser = (...paths: ReadonlyArray<(user: string) => string>): ReadonlyArray<Request> =>
  [...users, attackersUser].flatMap((user) => paths.map((path): Request => ["GET", `/v1/users/${path(of(user))}`]))

/**
 * What the attacker sends to each operation, in this order: for things of the victim, and for its own things under the
 * names of the victim's.
 */
export const attacks: Readonly<Record<string, Attack>> = {
  "GET /health": () => [["GET", "/health"]],
  "GET /v1/users/{userId}": () => eachUser((user) => user),
  "GET /v1/users/{userId}/balance": () => eachUser((user) => `${user}/balance`),
  "GET /v1/users/{userId}/rewards": ({ rewardsCursor }) =>
    eachUser((user) => `${user}/rewards`, (user) => `${user}/rewards?cursor=${rewardsCursor}`),
  "GET /v1/users/{userId}/rewards/{rewardId}/explanation": ({ rewardId }) =>
    [rewardId, ...["c", "cleared"].map((transaction) => `rw:${attacker}:${users[0]}:clearing:${transaction}:p`)]
      .flatMap((id) => eachUser((user) => `${user}/rewards/${of(id)}/explanation`)),
  "POST /v1/users/{userId}/quotes": () =>
    [...users, attackersUser].map((user): Request => ["POST", `/v1/users/${of(user)}/quotes`, {
      amount: { currency: "USD", amount: "100" },
      merchant: { descriptor: "Shop", mcc: "5411" },
      occurredAt: "2099-12-02T00:00:00.000Z"
    }]),
  "GET /v1/users/{userId}/spend-events/{kind}/{externalTransactionId}": () =>
    eachUser(
      ...[...transactions, "waiting"].flatMap((transaction) =>
        ["clearing", "refund"].map((kind) => (user: string) => `${user}/spend-events/${kind}/${of(transaction)}`))
    ),
  "PUT /v1/programs/{programId}/versions/{version}": () => [
    // the victim's content under this number belongs to the victim only
    ["PUT", "/v1/programs/p/versions/1", { ...program, baseRate: 200 }],
    ["GET", "/v1/programs/p"]
  ],
  "PUT /v1/sandbox/clock": () => [["PUT", "/v1/sandbox/clock", { now }]],
  "PUT /v1/users/{userId}": () => [
    ["PUT", `/v1/users/${attackersUser}`, { referredBy: users[0] }],
    ["PUT", `/v1/users/${attackersUser}`, { tier: "own" }],
    ["PUT", `/v1/users/${of(users[0])}`, { tier: "own" }],
    ["GET", `/v1/users/${of(users[0])}`]
  ],
  "POST /v1/spend-events": () => [
    spend(victim, users[0], "c"),
    spend(victim, users[0], "new"),
    spend(attacker, users[1], "c"),
    spend(attacker, attackersUser, "c"),
    spend(attacker, attackersUser, "c"),
    spend(attacker, users[0], "c", { amount: usd("7") }),
    spend(attacker, users[0], "held", { kind: "authorization" }),
    spend(attacker, users[0], "cleared", { authorizationId: "held" }),
    // the victim's clearing is not the original that this refund waits for
    refund(attacker, users[0], "f", "b:clearing:c"),
    refund(attacker, users[0], "own refund", "c"),
    refund(attacker, users[0], "own waiting", "batched")
  ],
  "POST /v1/spend-events/batch": () => [
    ["POST", "/v1/spend-events/batch", {
      events: [
        clearing({ integratorId: victim, userId: users[0], externalTransactionId: "c" }),
        clearing({ integratorId: victim, userId: users[0], externalTransactionId: "batched" }),
        clearing({ integratorId: attacker, userId: users[0], externalTransactionId: "batched" }),
        clearing({ integratorId: attacker, userId: attackersUser, externalTransactionId: "batched" })
      ]
    }]
  ],
  "GET /v1/vault": () => [["GET", "/v1/vault"]],
  "PUT /v1/vault/low-funds/{asset}": () => [
    ["PUT", "/v1/vault/low-funds/USDC", { threshold: "9000000" }],
    ["GET", "/v1/vault"]
  ],
  "DELETE /v1/vault/low-funds/{asset}": () => [["DELETE", "/v1/vault/low-funds/USDC"], ["GET", "/v1/vault"]],
  "GET /v1/statements/{asset}": () => [["GET", "/v1/statements/USDC?from=2099-01-01&to=2099-12-31"]],
  "GET /v1/journal": () => [["GET", "/v1/journal"]],
  "GET /v1/journal/seals": () => [["GET", "/v1/journal/seals"]],
  "GET /v1/journal/seals/latest": () => [["GET", "/v1/journal/seals/latest"]],
  "GET /v1/spend-events": ({ waitingCursor }) => [
    ["GET", "/v1/spend-events?state=waiting"],
    ["GET", `/v1/spend-events?state=waiting&cursor=${waitingCursor}`]
  ],
  "GET /v1/spend-events/backlog": () => [["GET", "/v1/spend-events/backlog"]],
  "GET /v1/programs": () => [["GET", "/v1/programs"]],
  "GET /v1/programs/{programId}": () => [["GET", "/v1/programs/p"]],
  "POST /v1/programs/{programId}/simulations": () => [
    ["POST", "/v1/programs/p/simulations", { definition: candidate, from: "2099-12-01T00:00:00Z", to: now }]
  ],
  "GET /v1/api-keys": () => [["GET", "/v1/api-keys"]],
  "DELETE /v1/api-keys/{name}": () => [["DELETE", "/v1/api-keys/k"], ["DELETE", "/v1/api-keys/default"]],
  "POST /v1/api-keys": () => [
    ["POST", "/v1/api-keys", { name: "k" }],
    ["DELETE", "/v1/api-keys/k"],
    ["GET", "/v1/api-keys"]
  ],
  "GET /v1/webhook-endpoints": () => [["GET", "/v1/webhook-endpoints"]],
  "GET /v1/webhook-endpoints/{id}": () => [["GET", "/v1/webhook-endpoints/e"]],
  "PATCH /v1/webhook-endpoints/{id}": () => [["PATCH", "/v1/webhook-endpoints/e", { url: `${url}/stolen` }]],
  "POST /v1/webhook-endpoints/{id}/rotate-secret": () => [["POST", "/v1/webhook-endpoints/e/rotate-secret"]],
  "POST /v1/webhook-endpoints/{id}/ping": () => [["POST", "/v1/webhook-endpoints/e/ping"]],
  "GET /v1/webhook-endpoints/{id}/deliveries": ({ deliveriesCursor }) => [
    ["GET", "/v1/webhook-endpoints/e/deliveries"],
    ["GET", `/v1/webhook-endpoints/e/deliveries?cursor=${deliveriesCursor}`]
  ],
  "POST /v1/webhook-endpoints/{id}/deliveries/{eventId}/redeliver": ({ eventId }) => [
    ["POST", `/v1/webhook-endpoints/e/deliveries/${eventId}/redeliver`]
  ],
  "POST /v1/webhook-endpoints/{id}/replays": () => [
    ["POST", "/v1/webhook-endpoints/e/replays", { from: "2026-01-01T00:00:00Z" }],
    ["GET", "/v1/webhook-endpoints/e/replays/rpl_2"]
  ],
  "GET /v1/webhook-endpoints/{id}/replays/{replayId}": () => [["GET", "/v1/webhook-endpoints/e/replays/rpl_2"]],
  "DELETE /v1/webhook-endpoints/{id}": () => [["DELETE", "/v1/webhook-endpoints/e"]],
  "POST /v1/webhook-endpoints": () => [
    ["POST", "/v1/webhook-endpoints", { id: "e", url: `${url}/own` }],
    ["PATCH", "/v1/webhook-endpoints/e", { url: `${url}/stolen` }],
    ["POST", "/v1/webhook-endpoints/e/rotate-secret"]
  ],
  "GET /v1/events": ({ eventsCursor }) => [["GET", "/v1/events"], ["GET", `/v1/events?after=${eventsCursor}`]],
  "GET /v1/sandbox/vault": () => [["GET", "/v1/sandbox/vault"]],
  "GET /v1/sandbox/clock": () => [["GET", "/v1/sandbox/clock"]],
  "POST /v1/sandbox/withdrawals": () => [
    ["POST", "/v1/sandbox/withdrawals", { reference: "d", amount: usdc("1") }],
    ["POST", "/v1/sandbox/withdrawals", { reference: "w", amount: usdc("1") }]
  ],
  "POST /v1/sandbox/claims": () => [
    ["POST", "/v1/sandbox/claims", { reference: "d", amount: usdc("1"), userId: users[1] }],
    ["POST", "/v1/sandbox/claims", { reference: "k", amount: usdc("1"), userId: users[0] }],
    ["POST", "/v1/sandbox/claims", { reference: "k", amount: usdc("1"), userId: attackersUser }]
  ],
  "POST /v1/sandbox/deposits": () => [
    ["POST", "/v1/sandbox/deposits", { reference: "d", amount: usdc("5") }],
    ["GET", "/v1/sandbox/vault"]
  ]
}
