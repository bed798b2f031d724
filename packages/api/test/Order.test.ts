import {
  createEndpoint as endpoint,
  enroll,
  moveMoney as move,
  publish,
  setClock as clock
} from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type Case, run, spend } from "./Refusals.ts"

/** Requests that break two rules: the first one in the decisions' order is the answer. A duplicate breaks none. */
const order: Readonly<Record<string, Case>> = {
  "a shape before a mismatch": {
    request: spend({ integratorId: "somebody", userId: "" }),
    status: 400,
    body: {
      _tag: "InvalidRequest",
      part: "body",
      message: "$.userId: expected a string with between 1 and 128 code points"
    }
  },
  "a mismatch before the clock and the enrollment": {
    request: spend({ integratorId: "somebody", userId: "nobody", occurredAt: "2099-01-01T00:00:00Z" }),
    status: 403,
    body: { _tag: "IntegratorMismatch" }
  },
  "an unknown endpoint before its URL": {
    request: ["PATCH", "/v1/webhook-endpoints/none", { url: "http://x" }],
    status: 404,
    body: { _tag: "NotFound" }
  },
  "an unknown key before the last one": {
    request: ["DELETE", "/v1/api-keys/none"],
    status: 404,
    body: { _tag: "NotFound" }
  },
  "a conflict before the clock": {
    before: [enroll("ann"), spend()],
    request: spend({ occurredAt: "2099-01-01T00:00:00Z" }),
    status: 409,
    body: { _tag: "SpendEventConflict" }
  },
  "the clock before the enrollment": {
    request: spend({ userId: "nobody", occurredAt: "2099-01-01T00:00:00Z" }),
    status: 422,
    body: { _tag: "EventInFuture" }
  },
  "the user of a quote before the clock": {
    request: ["POST", "/v1/users/nobody/quotes", {
      amount: { currency: "USD", amount: "100" },
      merchant: { descriptor: "Shop", mcc: "5411" },
      occurredAt: "2099-01-01T00:00:00Z"
    }],
    status: 404,
    body: { _tag: "NotFound" }
  },
  "a referrer's conflict before the referrer": {
    before: [enroll("ann")],
    request: enroll("ann", { referredBy: "nobody" }),
    status: 409,
    body: { _tag: "ReferrerConflict" }
  },
  "a version's conflict before its problems": {
    before: [publish("p", 1)],
    request: publish("p", 1, { baseRate: -1, misspelt: 1 }),
    status: 409,
    body: { _tag: "ProgramVersionConflict" }
  },
  "an endpoint's conflict before its URL": {
    before: [endpoint("e")],
    request: endpoint("e", "https://127.0.0.1/"),
    status: 409,
    body: { _tag: "WebhookEndpointConflict" }
  },
  "a refused URL before the limit of endpoints": {
    before: [endpoint("e")],
    request: endpoint("f", "https://127.0.0.1/"),
    status: 422,
    body: { _tag: "EndpointUrlRefused" }
  },
  "a reference's conflict before the enrollment": {
    before: [move("deposits", "r", "5")],
    request: move("claims", "r", "5", { userId: "nobody" }),
    status: 409,
    body: { _tag: "SimulationConflict" }
  },
  "the enrollment before the vault": {
    request: move("claims", "r", "0", { userId: "nobody" }),
    status: 422,
    body: { _tag: "UserNotEnrolled" }
  },
  "a duplicate version before its lead": {
    before: [publish("p", 1, { effectiveFrom: "2030-01-01T00:00:00Z" }), clock("2031-01-01T00:00:00Z")],
    request: publish("p", 1, { effectiveFrom: "2030-01-01T00:00:00.000Z" }),
    status: 200,
    body: { duplicate: true }
  },
  "a duplicate withdrawal before the balance": {
    before: [move("deposits", "d", "5"), move("withdrawals", "w", "5")],
    request: move("withdrawals", "w", "5"),
    status: 200,
    body: { duplicate: true }
  },
  "a duplicate deposit before the 78 digits": {
    before: [move("deposits", "d", "9".repeat(78))],
    request: move("deposits", "d", "9".repeat(78)),
    status: 200,
    body: { duplicate: true }
  },
  "a duplicate endpoint before the limit": {
    before: [endpoint("e")],
    request: endpoint("e"),
    status: 201,
    body: { duplicate: true }
  },
  "a refused request does not use up its reference": {
    before: [move("withdrawals", "r", "5"), move("deposits", "d", "5")],
    request: move("withdrawals", "r", "5"),
    status: 200,
    body: { duplicate: false }
  }
}

layer(TestApi.layer(), { excludeTestServices: true })("the order of checks", (it) => {
  Object.entries(order).forEach(([name, one], index) =>
    it.effect(name, () =>
      Effect.gen(function*() {
        const { body } = yield* run(`o${index}`, one)
        for (const [key, value] of Object.entries(one.body)) assert.strictEqual(body[key], value)
      }))
  )
})
