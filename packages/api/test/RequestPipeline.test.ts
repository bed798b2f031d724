import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { layer as processing, processAll } from "@card-rewards/testing/EventProcessing"
import { clearing, definition } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { maxBytes } from "../src/Pipeline/RequestBodies.ts"

const options = { excludeTestServices: true } as const

/** Bodies of a spend event with the answer that each gets. */
type Sample = readonly [status: number, error: string | undefined, body: string | Uint8Array]

const bodies: Readonly<Record<string, Sample>> = {
  "an event": [202, undefined, JSON.stringify(clearing({ externalTransactionId: "new" }))],
  "an event with every field": [202, undefined, JSON.stringify(clearing({
    externalTransactionId: "full",
    authorizationId: "a1",
    merchant: { descriptor: "Café ☕", mcc: "5411", mid: "m", country: "DE" }
  }))],
  "a known event": [202, undefined, JSON.stringify(clearing({ externalTransactionId: "known" }))],
  "a conflicting event": [409, "SpendEventConflict", JSON.stringify(
    clearing({ externalTransactionId: "known", amount: { currency: "USD", amount: "1" } })
  )],
  "an event in the future": [
    422,
    "EventInFuture",
    JSON.stringify(clearing({ occurredAt: "9999-01-01T00:00:00.000Z" }))
  ],
  "an event of an unknown user": [422, "UserNotEnrolled", JSON.stringify(clearing({ userId: "nobody" }))],
  "an event of another integrator": [403, "IntegratorMismatch", JSON.stringify(clearing({ integratorId: "other" }))],
  "an excess property": [400, "InvalidRequest", JSON.stringify(clearing({ tip: "1" }))],
  "several faults": [400, "InvalidRequest", JSON.stringify(clearing({ kind: "sale", userId: "" }))],
  "an impossible day": [400, "InvalidRequest", JSON.stringify(clearing({ occurredAt: "2026-02-30T00:00:00.000Z" }))],
  "no JSON": [400, "InvalidRequest", "{"],
  "nothing": [400, "InvalidRequest", ""],
  "a list": [400, "InvalidRequest", "[]"],
  "null": [400, "InvalidRequest", "null"],
  "invalid UTF-8": [400, "InvalidRequest", Uint8Array.of(0x22, 0xff, 0x22)],
  "too many levels": [400, "InvalidRequest", "[".repeat(65)],
  "too many bytes": [400, "InvalidRequest", `"${"x".repeat(maxBytes)}"`]
}

/** So that every answer shows the same rate limit, whenever it is given. */
const limit = { perSecond: 1_000, burst: 1_000_000 }
const limits = { ingest: limit, read: limit }

const enrolled = Layer.effectDiscard(Effect.gen(function*() {
  const api = yield* TestApi
  yield* api.send("PUT", "/v1/users/ann", { json: {} })
  yield* api.send("POST", "/v1/spend-events", { json: clearing({ externalTransactionId: "known" }) })
})).pipe(Layer.provideMerge(TestApi.layer({ limits })))

layer(enrolled, options)("a spend event's body", (it) => {
  // the second of each is equivalent to the first; only the first target is found without the router
  for (
    const [target, contentType] of [
      ["/v1/spend-events", "application/json"],
      ["/v1/spend-events?", "application/json;charset=utf-8"]
    ] as const
  ) {
    it.effect.each(Object.keys(bodies))(`of ${target}, ${contentType}: %s`, (kind) =>
      Effect.gen(function*() {
        const api = yield* TestApi
        const [status, error, raw] = bodies[kind] ?? [0, undefined, ""]
        const answer = yield* api.send("POST", target, { raw, headers: { "content-type": contentType } })
        assert.strictEqual(answer.status, status, answer.text)
        assert.strictEqual(answer.body["_tag"], error)
        assert.strictEqual(answer.headers["ratelimit-policy"], `"ingest";q=1000;w=1`)
        if (kind === "several faults") assert.strictEqual(answer.body["part"], "body")
      }))
  }
})

const threePosts = TestApi.layer({ limits: { ingest: { perSecond: 0.001, burst: 3 } } })

layer(threePosts, options)("the rate limit of ingest", (it) => {
  it.effect("takes a token for each request, whatever its answer is", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", "/v1/users/ann", { json: {} })
      const statuses: Array<number> = []
      for (const kind of ["no JSON", "an event of an unknown user", "an event", "an event"]) {
        const [, , raw] = bodies[kind] ?? [0, undefined, ""]
        statuses.push((yield* api.send("POST", "/v1/spend-events", { raw })).status)
      }
      assert.deepStrictEqual(statuses, [400, 422, 202, 429])
    }))
})

/** Reads with the status that each gets. */
const reads: Readonly<Record<string, number>> = {
  "ann/balance": 200,
  "bob/balance": 200,
  "nobody/balance": 404,
  "theirs/balance": 404,
  "a:b/balance": 200,
  "a%3Ab/balance": 200,
  "a%2Fb/balance": 404,
  "a%253Ab/balance": 404,
  "./balance": 404,
  "../balance": 404,
  "%2e%2e/balance": 404,
  [`${"x".repeat(128)}/balance`]: 404,
  [`${"x".repeat(129)}/balance`]: 400,
  [`${encodeURIComponent("🍕".repeat(128))}/balance`]: 404,
  [`${encodeURIComponent("🍕".repeat(129))}/balance`]: 400,
  "a%00b/balance": 400,
  "a%zzb/balance": 400,
  "%ed%a0%80/balance": 400,
  "/balance": 404,
  "ann/balance/": 404,
  "ann/balances": 404,
  "ann/Balance": 404,
  "ann/balance?limit=1": 200,
  "ann/rewards": 200,
  "bob/rewards": 200,
  "nobody/rewards": 200,
  "theirs/rewards": 200,
  "a%3Ab/rewards?limit=1": 200,
  "ann/rewards?limit=1": 200,
  "ann/rewards?limit=100": 200,
  "ann/rewards?limit=2&cursor=r2": 200,
  "ann/rewards?cursor=r2": 200,
  "ann/rewards?cursor=r": 400,
  "ann/rewards?cursor=R2": 400,
  [`ann/rewards?cursor=${"r".repeat(513)}`]: 400,
  "ann/rewards?cursor=r2&limit=2": 200,
  "ann/rewards?cursor=": 400,
  "ann/rewards?cursor=r%32": 200,
  "ann/rewards?limit=0": 400,
  "ann/rewards?limit=01": 400,
  "ann/rewards?limit=101": 400,
  "ann/rewards?limit=1&limit=2": 400,
  "ann/rewards?limit=1?cursor=r2": 400,
  "ann/rewards&cursor=r2": 404,
  "ann/rewards?more=1": 200
}

const earnings = Layer.effectDiscard(Effect.gen(function*() {
  const { otherKey, send } = yield* TestApi
  for (const user of ["ann", "bob", "a%3Ab"]) yield* send("PUT", `/v1/users/${user}`, { json: {} })
  yield* send("PUT", "/v1/users/theirs", { json: {}, key: otherKey })
  yield* send("PUT", "/v1/programs/p/versions/1", { json: definition() })
  yield* send("PUT", "/v1/sandbox/clock", { json: { now: "2099-12-10T00:00:00.000Z" } })
  const amount = { asset: "USDC", amount: "9000000" }
  yield* send("POST", "/v1/sandbox/deposits", { json: { reference: "d", amount } })
  for (const day of ["02", "03", "04"]) {
    const occurredAt = `2099-12-${day}T00:00:00.000Z`
    yield* send("POST", "/v1/spend-events", { json: clearing({ externalTransactionId: day, occurredAt }) })
  }
  yield* processAll
  // the holding period of the first is over, and no worker has noticed
  yield* send("PUT", "/v1/sandbox/clock", { json: { now: "2099-12-16T12:00:00.000Z" } })
})).pipe(Layer.provideMerge(processing), Layer.provideMerge(TestApi.layer({ limits })))

layer(earnings, options)("reads of a user", (it) => {
  it.effect.each(Object.keys(reads))("have their status: %s", (path) =>
    Effect.gen(function*() {
      const { send } = yield* TestApi
      assert.strictEqual((yield* send("GET", `/v1/users/${path}`)).status, reads[path])
    }))

  it.effect("show what there is", () =>
    Effect.gen(function*() {
      const { send } = yield* TestApi
      const { body } = yield* send("GET", "/v1/users/ann/balance")
      assert.deepStrictEqual(body, {
        userId: "ann",
        balances: [
          {
            asset: "USDC",
            expected: "0",
            pending: "3703500",
            claimable: "3703500",
            paid: "0",
            owed: "0",
            awaitingFunding: "3703500"
          },
          { asset: "EURe", expected: "0", pending: "0", claimable: "0", paid: "0", owed: "0", awaitingFunding: "0" }
        ]
      })
      const page = yield* send("GET", "/v1/users/ann/rewards?limit=2")
      assert.strictEqual(JSON.parse(page.text).rewards.length, 2)
      const cursor: string = JSON.parse(page.text).next
      const last = yield* send("GET", `/v1/users/ann/rewards?limit=2&cursor=${cursor}`)
      assert.strictEqual(JSON.parse(last.text).rewards.length, 1)
    }))

  it.effect.each(["HEAD", "OPTIONS", "POST", "PUT", "DELETE"])("know no other method: %s", (method) =>
    Effect.gen(function*() {
      const { send } = yield* TestApi
      const { status } = yield* send(method, "/v1/users/ann/balance")
      assert.strictEqual(status, method === "HEAD" ? 200 : 404)
    }))

  it.effect("are refused for keys that are missing, unknown, revoked or of a suspended integrator", () =>
    Effect.gen(function*() {
      const { send } = yield* TestApi
      const integrators = yield* Integrators
      const suspended = IntegratorId.make("suspended")
      const { apiKey } = yield* integrators.create(suspended)
      yield* integrators.suspend(suspended)
      const revoked = yield* send("POST", "/v1/api-keys", { json: { name: "revoked" } })
      yield* send("DELETE", "/v1/api-keys/revoked")
      const statuses = []
      for (const key of ["", "nonsense", `${revoked.body["secret"]}`, Redacted.value(apiKey)]) {
        statuses.push((yield* send("GET", "/v1/users/theirs/balance", { key })).status)
      }
      assert.deepStrictEqual(statuses, [401, 401, 401, 403])
    }))
})

layer(TestApi.layer({ limits: { read: { perSecond: 0.001, burst: 4 } } }), options)("the rate limit of reads", (it) => {
  it.effect("takes a token for each request, whatever its answer is", () =>
    Effect.gen(function*() {
      const { send } = yield* TestApi
      yield* send("PUT", "/v1/users/ann", { json: {} })
      const statuses = []
      for (const path of ["nobody/balance", "ann/balance", "ann/rewards?cursor=r", "ann/balance?", "ann/balance"]) {
        statuses.push((yield* send("GET", `/v1/users/${path}`)).status)
      }
      assert.deepStrictEqual(statuses, [404, 200, 400, 200, 429])
    }))
})
