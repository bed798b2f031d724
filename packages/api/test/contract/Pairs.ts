import {
  createEndpoint,
  createKey,
  enroll,
  hookUrl,
  moveMoney,
  publish,
  type Request,
  spend
} from "@card-rewards/testing/Requests"

/** Two requests at the same moment, and the two answers, whichever request each of them is to. */
export interface Pair {
  readonly name: string
  readonly before?: ReadonlyArray<Request>
  /** There is a claimable reward of 1234500. */
  readonly earned?: true
  readonly at: readonly [Request, Request]
  readonly answers: readonly [string, string]
  /** Spend events that are stored afterwards. */
  readonly rows?: number
  /** What a read shows afterwards. */
  readonly then?: readonly [path: string, text: string]
}

const vaultHolds = (amount: string) => ["/v1/sandbox/vault", `"asset":"USDC","held":"${amount}"`] as const
const claim = (reference: string, amount: string) => moveMoney("claims", reference, amount, { userId: "ann" })

export const pairs: ReadonlyArray<Pair> = [
  { name: "the same user", at: [enroll("ann"), enroll("ann")], answers: ["200 enrolled", "200 unchanged"] },
  {
    name: "a user with other attributes",
    at: [["PUT", "/v1/users/ann", { tier: "a" }], ["PUT", "/v1/users/ann", { tier: "b" }]],
    answers: ["200 enrolled", "200 updated"]
  },
  {
    name: "a user with other referrers",
    before: [enroll("bob"), enroll("eve")],
    at: [["PUT", "/v1/users/ann", { referredBy: "bob" }], ["PUT", "/v1/users/ann", { referredBy: "eve" }]],
    answers: ["200 enrolled", "409 ReferrerConflict"]
  },
  {
    name: "the same spend event",
    before: [enroll("ann")],
    at: [spend(), spend()],
    answers: ["202 false", "202 true"],
    rows: 1
  },
  {
    name: "a spend event with other content",
    before: [enroll("ann")],
    at: [spend(), spend({ amount: { currency: "USD", amount: "1" } })],
    answers: ["202 false", "409 SpendEventConflict"],
    rows: 1
  },
  { name: "the same program version", at: [publish("p", 1), publish("p", 1)], answers: ["200 false", "200 true"] },
  {
    name: "a program version with other content",
    at: [publish("p", 1), publish("p", 1, { baseRate: 1 })],
    answers: ["200 false", "409 ProgramVersionConflict"]
  },
  {
    name: "two versions with other assets",
    at: [publish("p", 1), publish("p", 2, { asset: "EURe" })],
    answers: ["200 false", "422 ProgramRefused"]
  },
  { name: "the same key", at: [createKey("k"), createKey("k")], answers: ["201 false", "201 true"] },
  {
    name: "the last of 20 keys",
    before: Array.from({ length: 18 }, (_, index) => createKey(`k${index}`)),
    at: [createKey("a"), createKey("b")],
    answers: ["201 false", "422 ApiKeyLimit"]
  },
  { name: "the same endpoint", at: [createEndpoint(), createEndpoint()], answers: ["201 false", "201 true"] },
  {
    name: "an endpoint with another URL",
    at: [createEndpoint(), createEndpoint("e", `${hookUrl}/b`)],
    answers: ["201 false", "409 WebhookEndpointConflict"]
  },
  {
    name: "two endpoints",
    at: [createEndpoint(), createEndpoint("f")],
    answers: ["201 false", "422 WebhookEndpointLimit"]
  },
  {
    name: "the same deposit",
    at: [moveMoney("deposits", "r", "5"), moveMoney("deposits", "r", "5")],
    answers: ["200 false", "200 true"],
    then: vaultHolds("5")
  },
  {
    name: "a deposit of another amount",
    at: [moveMoney("deposits", "r", "5"), moveMoney("deposits", "r", "6")],
    answers: ["200 false", "409 SimulationConflict"]
  },
  {
    name: "the same withdrawal",
    before: [moveMoney("deposits", "d", "10")],
    at: [moveMoney("withdrawals", "r", "6"), moveMoney("withdrawals", "r", "6")],
    answers: ["200 false", "200 true"],
    then: vaultHolds("4")
  },
  {
    name: "two withdrawals of more than is free",
    before: [moveMoney("deposits", "d", "10")],
    at: [moveMoney("withdrawals", "r", "6"), moveMoney("withdrawals", "s", "6")],
    answers: ["200 false", "422 SimulationRefused"],
    then: vaultHolds("4")
  },
  {
    name: "the same claim",
    earned: true,
    at: [claim("c", "1000000"), claim("c", "1000000")],
    answers: ["202 false", "202 true"],
    then: vaultHolds("234500")
  },
  {
    name: "a claim of another amount",
    earned: true,
    at: [claim("c", "1000"), claim("c", "1001")],
    answers: ["202 false", "409 SimulationConflict"]
  },
  {
    name: "two claims of more than is claimable",
    earned: true,
    at: [claim("c", "1000000"), claim("b", "1000000")],
    answers: ["202 false", "422 SimulationRefused"],
    then: vaultHolds("234500")
  }
]
