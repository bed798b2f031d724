import {
  clearing,
  createEndpoint,
  createKey,
  definition,
  enroll,
  hookUrl,
  moveMoney,
  publish,
  type Request,
  setClock,
  spend,
  usdc
} from "@card-rewards/testing/Requests"

/** A request of the story, the processing of all that is stored, or the wait for the key's use to be written. */
export type Step = Request | "process" | "writeKeyUse"

const december = "2099-12-15T00:00:00.000Z"
const claim = (reference: string, amount: string, userId = "ann") =>
  moveMoney("claims", reference, amount, { userId })

/** Every part that a program version can have. */
const complete = {
  tiers: [{ tier: "gold", multiplier: 15_000, baseRate: 150, categoryRates: [{ categoryId: "groceries", rate: 400 }] }],
  campaigns: [{
    id: "winter",
    startsAt: "2099-12-01T00:00:00Z",
    endsAt: "2100-01-01T00:00:00Z",
    bonusRate: 200,
    categoryIds: ["groceries"]
  }],
  caps: { perMonth: "0050000000", categories: [{ categoryId: "groceries", perMonth: "20000000" }] },
  exclusions: { mccs: ["6011"], merchants: [] },
  holdingPeriodDays: 0,
  eligibility: { countries: ["DE"], segments: ["beta"] }
}

const users: ReadonlyArray<Step> = [
  enroll("bob"),
  enroll("ann", { tier: "gold", country: "DE", segment: "beta", referredBy: "bob" }),
  enroll("ann", { tier: "gold", country: "DE", segment: "beta", referredBy: "bob" }),
  ["GET", "/v1/users/ann"],
  enroll("bob", { tier: "silver" }),
  ["GET", "/v1/users/bob"],
  ["GET", "/v1/users/nobody"],
  enroll("bob", { referredBy: "ann" }),
  enroll("cid", { referredBy: "nobody" }),
  enroll("cid", { country: "XX", age: 4 }),
  enroll("a%2Fb%3A%F0%9F%98%80"),
  ["GET", "/v1/users/ann/balance"],
  ["GET", "/v1/users/nobody/balance"],
  ["GET", "/v1/users/ann/rewards"],
  ["GET", "/v1/users/ann/rewards?limit=0"]
]

const programs: ReadonlyArray<Step> = [
  ["GET", "/v1/programs"],
  publish("plain", 1),
  publish("plain", 1),
  publish("plain", 1, { baseRate: 7 }),
  publish("plain", 2, { baseRate: 10_001, asset: "EURe", referralBonus: {}, merchantRates: [{}] }),
  publish("plain", 2, { baseRate: "1" }),
  publish("every-part", 7, complete),
  ["GET", "/v1/programs"],
  ["GET", "/v1/programs/every-part"],
  ["GET", "/v1/programs/none"],
  setClock(december)
]

const purchase = { occurredAt: december, merchant: { descriptor: "Shop", mcc: "5411", mid: "M-1", country: "DE" } }

const money: ReadonlyArray<Step> = [
  ["GET", "/v1/sandbox/vault"],
  moveMoney("deposits", "d1", "0010000000"),
  moveMoney("deposits", "d1", "10000000"),
  moveMoney("deposits", "d1", "1"),
  moveMoney("deposits", "d2", "0"),
  ["POST", "/v1/sandbox/deposits", { reference: "d3", amount: { asset: "EURe", amount: "5" } }],
  ["POST", "/v1/sandbox/deposits", { reference: "d4", amount: usdc("1.5") }],
  spend({ ...purchase, kind: "authorization", externalTransactionId: "a1" }),
  spend({ ...purchase, kind: "incremental_authorization", externalTransactionId: "i1", authorizationId: "a1" }),
  "process",
  ["GET", "/v1/users/ann/balance"],
  spend({ ...purchase, kind: "reversal", externalTransactionId: "v1", authorizationId: "a1" }),
  spend(purchase),
  spend(purchase),
  spend({ ...purchase, amount: { currency: "USD", amount: "1" } }),
  spend({ ...purchase, externalTransactionId: "t2", occurredAt: "2099-12-15T00:00:59Z" }),
  spend({ ...purchase, kind: "refund", externalTransactionId: "r1", originalTransactionId: "t2" }),
  spend({ integratorId: "somebody" }),
  spend({ externalTransactionId: "t3", occurredAt: "2099-12-15T00:01:01Z" }),
  spend({ userId: "nobody" }),
  ["POST", "/v1/spend-events", { ...clearing(), note: "x" }],
  ["POST", "/v1/spend-events", definition()],
  "process",
  ["GET", "/v1/users/ann/balance"],
  ["GET", "/v1/users/ann/rewards"],
  ["GET", "/v1/users/ann/rewards?limit=1"],
  ["GET", "/v1/sandbox/vault"],
  claim("c1", "1000"),
  claim("c1", "1000"),
  claim("c1", "1001"),
  claim("c2", "99999999"),
  claim("c2", "1", "nobody"),
  moveMoney("withdrawals", "w1", "1"),
  moveMoney("withdrawals", "w1", "1"),
  moveMoney("withdrawals", "w1", "2"),
  moveMoney("withdrawals", "w2", "99999999"),
  setClock("2099-12-29T00:00:00.000Z"),
  ["GET", "/v1/users/ann/balance"],
  ["GET", "/v1/users/ann/rewards"],
  ["GET", "/v1/sandbox/vault"]
]

const keys: ReadonlyArray<Step> = [
  "writeKeyUse",
  ["GET", "/v1/api-keys"],
  ["DELETE", "/v1/api-keys/default"],
  createKey("server"),
  createKey("server"),
  ["DELETE", "/v1/api-keys/none"],
  ["DELETE", "/v1/api-keys/server"],
  ["DELETE", "/v1/api-keys/server"],
  ["GET", "/v1/api-keys"],
  ...Array.from({ length: 20 }, (_, index) => createKey(`k${index}`))
]

const endpoints: ReadonlyArray<Step> = [
  ["GET", "/v1/webhook-endpoints"],
  createEndpoint(),
  createEndpoint(),
  createEndpoint("e", `${hookUrl}/b`),
  createEndpoint("f"),
  createEndpoint("f", "http://127.0.0.1/"),
  ["GET", "/v1/webhook-endpoints"],
  ["GET", "/v1/webhook-endpoints/e"],
  ["GET", "/v1/webhook-endpoints/none"],
  ["PATCH", "/v1/webhook-endpoints/e", { url: `${hookUrl}/b` }],
  ["PATCH", "/v1/webhook-endpoints/e", { url: "https://10.0.0.1/" }],
  ["PATCH", "/v1/webhook-endpoints/none", { url: hookUrl }],
  ["POST", "/v1/webhook-endpoints/e/rotate-secret"],
  ["GET", "/v1/webhook-endpoints/e"],
  ["POST", "/v1/webhook-endpoints/none/rotate-secret"],
  ["DELETE", "/v1/webhook-endpoints/e"],
  ["DELETE", "/v1/webhook-endpoints/e"],
  ["GET", "/v1/webhook-endpoints"]
]

/** The requests of one integrator, in order. */
export const story: ReadonlyArray<Step> = [...users, ...programs, ...money, ...keys, ...endpoints]
