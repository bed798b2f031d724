import { Integrators } from "@card-rewards/core/Integrators"
import { Rewards } from "@card-rewards/core/Rewards"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { maxBytes } from "../src/Http/Body.ts"
import { canonical } from "../src/Http/Paths.ts"
import * as Reads from "../src/Http/ShortWay/Reads.ts"
import { processAll, processing } from "./Processed.ts"
import { type Answer, clearing, definition, TestApi } from "./TestApi.ts"

const options = { timeout: "60 seconds", excludeTestServices: true } as const

/** Bodies by what they are; `id` makes those of the two ways different events. */
const bodies: Readonly<Record<string, (id: string) => string | Uint8Array>> = {
  "an event": (id) => JSON.stringify(clearing({ externalTransactionId: id })),
  "with every field": (id) =>
    JSON.stringify(clearing({
      externalTransactionId: id,
      authorizationId: "a1",
      merchant: { descriptor: "Café ☕", mcc: "5411", mid: "m", country: "DE" }
    })),
  "known": () => JSON.stringify(clearing({ externalTransactionId: "known" })),
  "a conflict": () => JSON.stringify(clearing({ externalTransactionId: "known", amount: { currency: "USD", amount: "1" } })),
  "in the future": (id) => JSON.stringify(clearing({ externalTransactionId: id, occurredAt: "9999-01-01T00:00:00.000Z" })),
  "of nobody": (id) => JSON.stringify(clearing({ externalTransactionId: id, userId: "nobody" })),
  "another's": (id) => JSON.stringify(clearing({ externalTransactionId: id, integratorId: "other" })),
  "with too much": (id) => JSON.stringify(clearing({ externalTransactionId: id, tip: "1" })),
  "with several faults": (id) => JSON.stringify(clearing({ externalTransactionId: id, kind: "sale", userId: "" })),
  "with an impossible day": (id) =>
    JSON.stringify(clearing({ externalTransactionId: id, occurredAt: "2026-02-30T00:00:00.000Z" })),
  "no JSON": () => "{",
  "nothing": () => "",
  "a list": () => "[]",
  "null": () => "null",
  "not UTF-8": () => Uint8Array.of(0x22, 0xff, 0x22),
  "too deep": () => "[".repeat(65),
  "too large": () => `"${"x".repeat(maxBytes)}"`
}

/** All of an answer, but for when it was given and the id of what was sent. */
const comparable = ({ headers, status, text }: Answer, id = "") => ({
  status,
  headers: { ...headers, date: undefined },
  text: id === "" ? text : text.replaceAll(id, "id")
})

/** So that every answer tells the same rate limit, whenever it is given. */
const limit = { perSecond: 1_000, burst: 1_000_000 }
const limits = { ingest: limit, read: limit }

/** A content type that only the router's way reads. */
const routed = { "content-type": "application/json;charset=utf-8" }

const twoWays = Effect.fnUntraced(function*(kind: string, key?: string) {
  const api = yield* TestApi
  const body = bodies[kind] ?? (() => "")
  const way = (id: string, headers: Readonly<Record<string, string>>) =>
    Effect.map(
      api.send("POST", "/v1/spend-events", { raw: body(id), headers, ...(key === undefined ? {} : { key }) }),
      (answer) => comparable(answer, id)
    )
  // the first answer makes the key a remembered one
  yield* api.send("GET", "/v1/spend-events/backlog", key === undefined ? {} : { key })
  return { short: yield* way(`s-${kind.length}`, {}), router: yield* way(`r-${kind.length}`, routed) }
})

const setUp = Effect.gen(function*() {
  const api = yield* TestApi
  yield* api.send("PUT", "/v1/users/ann", { json: {} })
  yield* api.send("POST", "/v1/spend-events", { json: clearing({ externalTransactionId: "known" }) })
})

layer(TestApi.layer({ limits }), options)("the short way answers as the router's", (it) => {
  it.effect.each(Object.keys(bodies))("%s", (kind) =>
    Effect.gen(function*() {
      yield* setUp
      const { router, short } = yield* twoWays(kind)
      assert.deepStrictEqual(short, router)
    }))

  it.effect("a suspended integrator", () =>
    Effect.gen(function*() {
      const integrators = yield* Integrators
      const { otherKey } = yield* TestApi
      yield* integrators.suspend(IntegratorId.make("other"))
      const { router, short } = yield* twoWays("an event", otherKey)
      assert.deepStrictEqual(short, router)
      assert.strictEqual(short.status, 403)
    }))
})

layer(TestApi.layer({ limits: { ingest: { perSecond: 0.001, burst: 3 } } }), options)("a rate limit", (it) => {
  it.effect("holds for both ways together, a token for each request whatever comes of it", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", "/v1/users/ann", { json: {} })
      const statuses: Array<number> = []
      for (const [kind, headers] of [["no JSON", {}], ["of nobody", {}], ["an event", routed], ["an event", {}]] as const) {
        const raw = bodies[kind]?.("x") ?? ""
        statuses.push((yield* api.send("POST", "/v1/spend-events", { raw, headers })).status)
      }
      assert.deepStrictEqual(statuses, [400, 422, 202, 429])
    }))
})

/** Reads, and whether they have a short way. */
const reads: Readonly<Record<string, boolean>> = {
  "ann/balance": true,
  "bob/balance": true,
  "nobody/balance": true,
  "theirs/balance": true,
  "a:b/balance": true,
  "a%3Ab/balance": true,
  "a%2Fb/balance": true,
  "a%253Ab/balance": true,
  "./balance": true,
  "../balance": true,
  "%2e%2e/balance": true,
  [`${"x".repeat(128)}/balance`]: true,
  [`${"x".repeat(129)}/balance`]: false,
  [`${encodeURIComponent("🍕".repeat(128))}/balance`]: true,
  [`${encodeURIComponent("🍕".repeat(129))}/balance`]: false,
  "a%00b/balance": false,
  "a%zzb/balance": false,
  "%ed%a0%80/balance": false,
  "/balance": false,
  "ann/balance/": false,
  "ann/balances": false,
  "ann/Balance": false,
  "ann/balance?limit=1": false,
  "ann/rewards": true,
  "bob/rewards": true,
  "nobody/rewards": true,
  "theirs/rewards": true,
  "a%3Ab/rewards?limit=1": true,
  "ann/rewards?limit=1": true,
  "ann/rewards?limit=100": true,
  "ann/rewards?limit=2&cursor=r2": true,
  "ann/rewards?cursor=r2": true,
  "ann/rewards?cursor=r": true,
  "ann/rewards?cursor=R2": true,
  [`ann/rewards?cursor=${"r".repeat(513)}`]: true,
  "ann/rewards?cursor=r2&limit=2": false,
  "ann/rewards?cursor=": false,
  "ann/rewards?cursor=r%32": false,
  "ann/rewards?limit=0": false,
  "ann/rewards?limit=01": false,
  "ann/rewards?limit=101": false,
  "ann/rewards?limit=1&limit=2": false,
  "ann/rewards?limit=1?cursor=r2": false,
  "ann/rewards&cursor=r2": false,
  "ann/rewards?more=1": false
}

/** The same target, so that the router takes it. */
const routedPath = (path: string) => `${path}${path.includes("?") ? "&" : "?"}`

const readTwoWays = Effect.fnUntraced(function*(method: string, path: string, key?: string) {
  const api = yield* TestApi
  const sent = key === undefined ? {} : { key }
  yield* api.send("GET", "/v1/spend-events/backlog", sent)
  const short = comparable(yield* api.send(method, path, sent))
  assert.deepStrictEqual(short, comparable(yield* api.send(method, routedPath(path), sent)))
  return short
})

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
  // the first is past its holding period, but nobody has looked
  yield* send("PUT", "/v1/sandbox/clock", { json: { now: "2099-12-16T12:00:00.000Z" } })
})).pipe(Layer.provideMerge(processing), Layer.provideMerge(TestApi.layer({ limits })))

layer(earnings, options)("the short way of reads", (it) => {
  it.effect.each(Object.keys(reads))("answers as the router's: %s", (path) =>
    readTwoWays("GET", `/v1/users/${path}`))

  it.effect("answers with what there is", () =>
    Effect.gen(function*() {
      const { text } = yield* readTwoWays("GET", "/v1/users/ann/balance")
      assert.deepStrictEqual(JSON.parse(text).balances[0], {
        asset: "USDC",
        expected: "0",
        pending: "3703500",
        claimable: "3703500",
        paid: "0",
        owed: "0",
        awaitingFunding: "3703500"
      })
      const page = yield* readTwoWays("GET", "/v1/users/ann/rewards?limit=2")
      assert.strictEqual(JSON.parse(page.text).rewards.length, 2)
      const cursor: string = JSON.parse(page.text).next
      const last = yield* readTwoWays("GET", `/v1/users/ann/rewards?limit=2&cursor=${cursor}`)
      assert.strictEqual(JSON.parse(last.text).rewards.length, 1)
      assert.strictEqual((yield* readTwoWays("GET", "/v1/users/theirs/balance")).status, 404)
    }))

  it.effect("is there for what is well-formed alone", () =>
    Effect.gen(function*() {
      const wayOf = yield* Reads.make
      const request = HttpServerRequest.fromWeb(new Request("http://localhost/"))
      const found = Object.keys(reads).map((path) => {
        const url = canonical(`/v1/users/${path}`) ?? ""
        return [path, wayOf(request.modify({ url })) !== undefined]
      })
      assert.deepStrictEqual(Object.fromEntries(found), reads)
    }).pipe(Effect.provide(Layer.mock(Rewards)({}))))

  it.effect.each(["HEAD", "OPTIONS", "POST", "PUT", "DELETE"])("is for no other method: %s", (method) =>
    Effect.gen(function*() {
      const { status } = yield* readTwoWays(method, "/v1/users/ann/balance")
      assert.strictEqual(status, method === "HEAD" ? 200 : 404)
    }))

  it.effect("is not for keys that are missing, unknown, revoked or of a suspended integrator", () =>
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
        statuses.push((yield* readTwoWays("GET", "/v1/users/theirs/balance", key)).status)
      }
      assert.deepStrictEqual(statuses, [401, 401, 401, 403])
    }))
})

layer(TestApi.layer({ limits: { read: { perSecond: 0.001, burst: 4 } } }), options)("a rate limit of reads", (it) => {
  it.effect("holds for both ways together, a token for each request whatever comes of it", () =>
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
