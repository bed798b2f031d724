import {
  createEndpoint as endpoint,
  enroll,
  hookUrl as url,
  moveMoney as move,
  publish,
  setClock as clock
} from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type Case, run, spend } from "./Refusals.ts"

const notFound = (resource: string, id: string) => ({
  _tag: "NotFound",
  message: `There is no ${resource} with this id`,
  resource,
  id
})
const refusedUrl = { _tag: "EndpointUrlRefused", message: "The URL is refused: the URL has a fragment" }

/** Every error that is an operation's own, with the fields of the contract's section 7. */
const errors: Readonly<Record<string, Case>> = {
  "IntegratorMismatch": {
    request: spend({ integratorId: "somebody" }),
    status: 403,
    body: { _tag: "IntegratorMismatch", message: "integratorId is not the integrator of this API key" }
  },
  "NotFound of a user": {
    request: ["GET", "/v1/users/a%2Fb%3A%F0%9F%98%80"],
    status: 404,
    body: notFound("user", "a/b:😀")
  },
  "NotFound of a user's balance": {
    request: ["GET", "/v1/users/nobody/balance"],
    status: 404,
    body: notFound("user", "nobody")
  },
  "NotFound of a key": { request: ["DELETE", "/v1/api-keys/none"], status: 404, body: notFound("api_key", "none") },
  "NotFound of an endpoint": {
    request: ["GET", "/v1/webhook-endpoints/none"],
    status: 404,
    body: notFound("webhook_endpoint", "none")
  },
  "NotFound of a program": { request: ["GET", "/v1/programs/none"], status: 404, body: notFound("program", "none") },
  "NotFound of a reward": {
    before: [enroll("ann")],
    request: ["GET", "/v1/users/ann/rewards/none/explanation"],
    status: 404,
    body: notFound("reward", "none")
  },
  "SpendEventConflict": {
    before: [enroll("ann"), spend()],
    request: spend({ merchant: { descriptor: "Another shop", mcc: "5411" } }),
    status: 409,
    body: {
      _tag: "SpendEventConflict",
      message: "An event with this identity was stored with different content",
      id: "se:self:ann:clearing:t1"
    }
  },
  "ProgramVersionConflict": {
    before: [publish("p", 7)],
    request: publish("p", 7, { baseRate: 99 }),
    status: 409,
    body: {
      _tag: "ProgramVersionConflict",
      message: "Other content was published under this version number; a version never changes",
      programId: "p",
      version: 7
    }
  },
  "ReferrerConflict": {
    before: [enroll("bob"), enroll("ann")],
    request: enroll("ann", { referredBy: "bob" }),
    status: 409,
    body: { _tag: "ReferrerConflict", message: "referredBy is set at enrollment and cannot change", userId: "ann" }
  },
  "WebhookEndpointConflict": {
    before: [endpoint("e")],
    request: endpoint("e", `${url}b`),
    status: 409,
    body: { _tag: "WebhookEndpointConflict", message: "There is an endpoint with this id and another URL", id: "e" }
  },
  "SimulationConflict": {
    before: [move("deposits", "r", "5")],
    request: move("withdrawals", "r", "5"),
    status: 409,
    body: { _tag: "SimulationConflict", message: "This reference was used for another request", reference: "r" }
  },
  "EventInFuture": {
    before: [enroll("ann")],
    request: spend({ occurredAt: "2099-01-01T00:00:00Z" }),
    status: 422,
    body: { _tag: "EventInFuture", message: "occurredAt is more than one minute ahead of the service's clock" }
  },
  "UserNotEnrolled for a spend event": {
    request: spend({ userId: "nobody" }),
    status: 422,
    body: { _tag: "UserNotEnrolled", message: "There is no user with this id; enroll the user first", userId: "nobody" }
  },
  "UserNotEnrolled for a claim": {
    request: move("claims", "r", "5", { userId: "nobody" }),
    status: 422,
    body: { _tag: "UserNotEnrolled", message: "There is no user with this id; enroll the user first", userId: "nobody" }
  },
  "ReferrerNotEnrolled": {
    request: enroll("ann", { referredBy: "nobody" }),
    status: 422,
    body: { _tag: "ReferrerNotEnrolled", message: "referredBy names no user enrolled earlier", referredBy: "nobody" }
  },
  "ReferrerNotEnrolled for oneself": {
    request: enroll("ann", { referredBy: "ann" }),
    status: 422,
    body: { _tag: "ReferrerNotEnrolled", message: "referredBy names no user enrolled earlier", referredBy: "ann" }
  },
  "LastActiveKey": {
    request: ["DELETE", "/v1/api-keys/default"],
    status: 422,
    body: {
      _tag: "LastActiveKey",
      message: "The last active key cannot be revoked; create another one first",
      name: "default"
    }
  },
  "WebhookEndpointLimit": {
    before: [endpoint("e")],
    request: endpoint("f"),
    status: 422,
    body: { _tag: "WebhookEndpointLimit", message: "There is an endpoint already; change or delete that one" }
  },
  "EndpointUrlRefused": {
    request: endpoint("e", "https://user:secret@hooks.example.com/#a"),
    status: 422,
    body: refusedUrl
  },
  "SimulationRefused of a withdrawal": {
    before: [move("deposits", "d", "5")],
    request: move("withdrawals", "r", "6"),
    status: 422,
    body: { _tag: "SimulationRefused", message: "The vault has less free money than this amount", reference: "r" }
  },
  "SimulationRefused of a claim": {
    before: [enroll("ann")],
    request: move("claims", "r", "6", { userId: "ann" }),
    status: 422,
    body: { _tag: "SimulationRefused", message: "The user can claim less than this amount", reference: "r" }
  },
  "SimulationRefused of nothing": {
    request: move("deposits", "r", "000"),
    status: 422,
    body: { _tag: "SimulationRefused", message: "The amount must be greater than zero", reference: "r" }
  },
  "SimulationRefused beyond 78 digits": {
    before: [move("deposits", "d", "9".repeat(78))],
    request: move("deposits", "r", "1"),
    status: 422,
    body: { _tag: "SimulationRefused", message: "The vault's balance would have more than 78 digits", reference: "r" }
  },
  "ProgramRefused with every problem at once": {
    request: publish(
      "p",
      1,
      {
        baseRate: 10_001,
        holdingPeriodDays: -1,
        effectiveFrom: "2020-01-01T00:00:00Z",
        misspelt: 1,
        merchantRates: [1]
      }
    ),
    status: 422,
    body: {
      _tag: "ProgramRefused",
      message: "The version was not published; problems lists why",
      programId: "p",
      problems: [
        "misspelt: is not known",
        "baseRate: must be from 0 to 10000",
        "holdingPeriodDays: must be from 0 to 365",
        "merchantRates: must be empty for now",
        "effectiveFrom: must be at least 5 minutes after publication"
      ]
    }
  },
  "ClockCannotGoBack": {
    before: [clock("8999-12-31T23:59:59.999Z")],
    request: clock("2080-01-01T00:00:00Z"),
    status: 422,
    body: { _tag: "ClockCannotGoBack", message: "The sandbox clock moves forward only" }
  }
}

layer(TestApi.layer(), { excludeTestServices: true })("errors", (it) => {
  Object.entries(errors).forEach(([name, error], index) =>
    it.effect(`the whole body of ${name}`, () =>
      Effect.gen(function*() {
        const integratorId = `e${index}`
        const { body } = yield* run(integratorId, error)
        const { now, ...rest } = body
        assert.strictEqual(now !== undefined, name === "ClockCannotGoBack")
        assert.deepStrictEqual(
          rest,
          JSON.parse(JSON.stringify(error.body).replaceAll("se:self:", `se:${integratorId}:`))
        )
      }))
  )

  it.effect("50 programs and 100 versions of each are the limits; a duplicate passes them", () =>
    Effect.gen(function*() {
      const { send } = yield* newIntegrator("limits")
      for (let index = 1; index <= 50; index++) {
        assert.strictEqual((yield* send(...publish(`p${index}`, 1))).status, 200)
      }
      const program = yield* send(...publish("p51", 1))
      assert.deepInclude(
        program.body,
        { _tag: "ProgramRefused", problems: ["programId: there are 50 programs already"] }
      )
      for (let version = 2; version <= 100; version++) {
        assert.strictEqual((yield* send(...publish("p1", version * 1_000))).status, 200)
      }
      const version = yield* send(...publish("p1", 2_147_483_647))
      assert.deepInclude(
        version.body,
        { _tag: "ProgramRefused", problems: ["version: the program has 100 versions already"] }
      )
      assert.strictEqual((yield* send(...publish("p1", 2_000))).body["duplicate"], true)
      assert.strictEqual((yield* send(...publish("p2", 2_147_483_647))).body["version"], 2_147_483_647)
    }))
})
