import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { DatabaseProxy } from "@card-rewards/dev-postgres/DatabaseProxy"
import { type Answer, clearing, definition, type Sent, TestApi } from "./TestApi.ts"

/** The declared operations and statuses, from the document that the service answers with. */
const declared: ReadonlyArray<Operation> = Object.entries(OpenApi.fromApi(SandboxApi).paths).flatMap(([path, item]) =>
  Object.entries(item).flatMap(([method, operation]) =>
    "responses" in operation
      ? [{
        name: `${method.toUpperCase()} ${path}`,
        authenticated: operation.security.length > 0,
        hasBody: operation.requestBody !== undefined,
        statuses: Object.keys(operation.responses).map(Number),
        tags: (status: number) =>
          JSON.stringify(operation.responses[status]).match(/(?<=schemas\/)\w+/g) ?? []
      }]
      : []
  )
)

interface Operation {
  /** `GET /v1/users/{userId}` */
  readonly name: string
  readonly authenticated: boolean
  readonly hasBody: boolean
  readonly statuses: ReadonlyArray<number>
  /** The schemas of an answer: for errors, their tags. */
  readonly tags: (status: number) => ReadonlyArray<string>
}

/** What an answer may hold, by operation and status. */
const schemas = new Map<string, ReadonlyArray<Schema.Top>>()
HttpApi.reflect(SandboxApi, {
  onGroup: () => {},
  onEndpoint: ({ endpoint, errors, successes }) => {
    const name = `${endpoint.method} ${endpoint.path.replace(/:(\w+)/g, "{$1}")}`
    for (const [status, bodies] of [...successes, ...errors]) schemas.set(`${name} ${status}`, bodies)
  }
})

/** The answer has the declared body, and nothing beside it. */
const conforms = (operation: Operation, answer: Answer) => {
  const bodies = schemas.get(`${operation.name} ${answer.status}`)
  assert.isDefined(bodies, `${operation.name} ${answer.status} is not declared: ${answer.text}`)
  if (answer.status === 204) return assert.strictEqual(answer.text, "")
  assert.match(answer.headers["content-type"] ?? "", /^application\/json/)
  // the schemas of bodies need no services
  Schema.decodeUnknownSync(Schema.Union(bodies ?? []) as unknown as Schema.Codec<unknown>)(answer.body, { onExcessProperty: "error" })
}

/** What the border gives to every authenticated operation. */
const borderStatuses = [400, 401, 403, 429, 503]

type Send = TestApi["Service"]["send"]
type Case = (send: Send) => Effect.Effect<ReadonlyArray<Answer>>

const url = "https://hooks.example.com/a"
const usdc = (amount: string) => ({ asset: "USDC", amount })
const one = (answer: Effect.Effect<Answer>) => Effect.map(answer, (only) => [only])
const send = (method: string, path: string, json?: unknown): Case => (request) => one(request(method, path, { json }))

/** Sends all in order; what comes before the last ones only prepares. */
const last = (proofs: number, ...requests: ReadonlyArray<readonly [method: string, path: string, json?: unknown]>): Case => (request) =>
  Effect.forEach(requests, ([method, path, json]) => request(method, path, { json })).pipe(
    Effect.map((answers) => answers.slice(-proofs))
  )

const enroll = (userId: string) => ["PUT", `/v1/users/${userId}`, {}] as const
const createEndpoint = ["POST", "/v1/webhook-endpoints", { id: "e", url }] as const
const spend = (changes: Readonly<Record<string, unknown>>) => ["POST", "/v1/spend-events", clearing({ integratorId: "acme", ...changes })] as const
const november = { definition: definition(), from: "2099-11-01T00:00:00Z", to: "2099-12-01T00:00:00Z" }
const simulate = (path: string, reference: string, amount: string, more: object = {}) =>
  ["POST", `/v1/sandbox/${path}`, { reference, amount: usdc(amount), ...more }] as const

/**
 * What produces each declared answer that is the operation's own; each case is an integrator's first requests. An error
 * status needs one answer of every tag that it declares.
 */
const cases: Readonly<Record<string, Case>> = {
  "GET /health 204": (request) => one(request("GET", "/health", { key: "" })),

  "POST /v1/spend-events 202": last(2, enroll("ann"), spend({}), spend({})),
  "POST /v1/spend-events 403": last(1, spend({ integratorId: "somebody" })),
  "POST /v1/spend-events 409": last(1, enroll("ann"), spend({}), spend({ amount: { currency: "USD", amount: "1" } })),
  "POST /v1/spend-events 422": last(2, enroll("ann"), spend({ occurredAt: "2099-01-01T00:00:00Z" }), spend({ userId: "nobody" })),

  "PUT /v1/users/{userId} 200": last(3, enroll("ann"), enroll("ann"), ["PUT", "/v1/users/ann", { tier: "gold" }]),
  "PUT /v1/users/{userId} 409": last(1, enroll("bob"), enroll("ann"), ["PUT", "/v1/users/ann", { referredBy: "bob" }]),
  "PUT /v1/users/{userId} 422": send("PUT", "/v1/users/ann", { referredBy: "nobody" }),
  "GET /v1/users/{userId} 200": last(1, enroll("ann"), ["GET", "/v1/users/ann"]),
  "GET /v1/users/{userId} 404": send("GET", "/v1/users/nobody"),
  "GET /v1/users/{userId}/balance 200": last(1, enroll("ann"), ["GET", "/v1/users/ann/balance"]),
  "GET /v1/users/{userId}/balance 404": send("GET", "/v1/users/nobody/balance"),
  "GET /v1/users/{userId}/rewards 200": send("GET", "/v1/users/nobody/rewards?limit=1"),
  "GET /v1/users/{userId}/rewards/{rewardId}/explanation 404": send("GET", "/v1/users/nobody/rewards/rw%3Ax/explanation"),
  "GET /v1/spend-events 200": send("GET", "/v1/spend-events?state=waiting&limit=1"),
  "GET /v1/spend-events/backlog 200": last(1, enroll("ann"), spend({}), ["GET", "/v1/spend-events/backlog"]),
  "GET /v1/events 200": last(2, simulate("deposits", "d", "1"), ["GET", "/v1/events"], ["GET", "/v1/events?after=1&kind=reward.paid"]),

  "PUT /v1/programs/{programId}/versions/{version} 200": last(2, publish(1, {}), publish(1, {})),
  "PUT /v1/programs/{programId}/versions/{version} 409": last(1, publish(1, {}), publish(1, { baseRate: 7 })),
  "PUT /v1/programs/{programId}/versions/{version} 422": last(1, publish(1, { baseRate: -1 })),
  "GET /v1/programs 200": last(1, publish(1, {}), ["GET", "/v1/programs"]),
  "GET /v1/programs/{programId} 200": last(1, publish(1, {}), ["GET", "/v1/programs/p"]),
  "GET /v1/programs/{programId} 404": send("GET", "/v1/programs/none"),
  "POST /v1/programs/{programId}/simulations 200": last(1, publish(1, {}), ["POST", "/v1/programs/p/simulations", november]),
  "POST /v1/programs/{programId}/simulations 400": last(
    2,
    publish(1, {}),
    ["POST", "/v1/programs/p/simulations", { ...november, more: 1 }],
    ["POST", "/v1/programs/p/simulations", { ...november, to: november.from }]
  ),
  "POST /v1/programs/{programId}/simulations 404": send("POST", "/v1/programs/none/simulations", november),

  "GET /v1/api-keys 200": send("GET", "/v1/api-keys"),
  "POST /v1/api-keys 201": last(2, ["POST", "/v1/api-keys", { name: "k" }], ["POST", "/v1/api-keys", { name: "k" }]),
  "POST /v1/api-keys 422": last(1, ...Array.from({ length: 20 }, (_, index) => ["POST", "/v1/api-keys", { name: `k${index}` }] as const)),
  "DELETE /v1/api-keys/{name} 200": last(2, ["POST", "/v1/api-keys", { name: "k" }], ["DELETE", "/v1/api-keys/k"], ["DELETE", "/v1/api-keys/k"]),
  "DELETE /v1/api-keys/{name} 404": send("DELETE", "/v1/api-keys/none"),
  "DELETE /v1/api-keys/{name} 422": send("DELETE", "/v1/api-keys/default"),

  "GET /v1/webhook-endpoints 200": send("GET", "/v1/webhook-endpoints"),
  "POST /v1/webhook-endpoints 201": last(2, createEndpoint, createEndpoint),
  "POST /v1/webhook-endpoints 409": last(1, createEndpoint, ["POST", "/v1/webhook-endpoints", { id: "e", url: `${url}/b` }]),
  "POST /v1/webhook-endpoints 422": last(
    2,
    createEndpoint,
    ["POST", "/v1/webhook-endpoints", { id: "f", url }],
    ["POST", "/v1/webhook-endpoints", { id: "f", url: "http://127.0.0.1/" }]
  ),
  "GET /v1/webhook-endpoints/{id} 200": last(1, createEndpoint, ["GET", "/v1/webhook-endpoints/e"]),
  "GET /v1/webhook-endpoints/{id} 404": send("GET", "/v1/webhook-endpoints/none"),
  "PATCH /v1/webhook-endpoints/{id} 200": last(1, createEndpoint, ["PATCH", "/v1/webhook-endpoints/e", { url: `${url}/b` }]),
  "PATCH /v1/webhook-endpoints/{id} 404": send("PATCH", "/v1/webhook-endpoints/none", { url }),
  "PATCH /v1/webhook-endpoints/{id} 422": last(1, createEndpoint, ["PATCH", "/v1/webhook-endpoints/e", { url: "http://x" }]),
  "DELETE /v1/webhook-endpoints/{id} 200": last(1, createEndpoint, ["DELETE", "/v1/webhook-endpoints/e"]),
  "DELETE /v1/webhook-endpoints/{id} 404": send("DELETE", "/v1/webhook-endpoints/none"),
  "POST /v1/webhook-endpoints/{id}/rotate-secret 200": last(1, createEndpoint, ["POST", "/v1/webhook-endpoints/e/rotate-secret"]),
  "POST /v1/webhook-endpoints/{id}/rotate-secret 404": send("POST", "/v1/webhook-endpoints/none/rotate-secret"),
  "GET /v1/webhook-endpoints/{id}/deliveries 200": last(
    2,
    createEndpoint,
    simulate("deposits", "d", "1"),
    ["GET", "/v1/webhook-endpoints/e/deliveries"],
    ["GET", "/v1/webhook-endpoints/e/deliveries?state=exhausted&limit=1"]
  ),
  "GET /v1/webhook-endpoints/{id}/deliveries 404": send("GET", "/v1/webhook-endpoints/none/deliveries"),
  "POST /v1/webhook-endpoints/{id}/deliveries/{eventId}/redeliver 202": redelivered,
  "POST /v1/webhook-endpoints/{id}/deliveries/{eventId}/redeliver 404": last(
    1,
    createEndpoint,
    ["POST", "/v1/webhook-endpoints/e/deliveries/evt_x/redeliver"]
  ),
  "POST /v1/webhook-endpoints/{id}/ping 202": last(1, createEndpoint, ["POST", "/v1/webhook-endpoints/e/ping"]),
  "POST /v1/webhook-endpoints/{id}/ping 404": send("POST", "/v1/webhook-endpoints/none/ping"),

  "GET /v1/sandbox/vault 200": send("GET", "/v1/sandbox/vault"),
  "POST /v1/sandbox/deposits 200": last(2, simulate("deposits", "r", "5"), simulate("deposits", "r", "5")),
  "POST /v1/sandbox/deposits 409": last(1, simulate("deposits", "r", "5"), simulate("deposits", "r", "6")),
  "POST /v1/sandbox/deposits 422": last(1, simulate("deposits", "r", "0")),
  "POST /v1/sandbox/withdrawals 200": last(2, simulate("deposits", "d", "5"), simulate("withdrawals", "r", "5"), simulate("withdrawals", "r", "5")),
  "POST /v1/sandbox/withdrawals 409": last(1, simulate("deposits", "r", "5"), simulate("withdrawals", "r", "5")),
  "POST /v1/sandbox/withdrawals 422": last(1, simulate("withdrawals", "r", "5")),
  "POST /v1/sandbox/claims 409": last(1, enroll("ann"), simulate("deposits", "r", "5"), simulate("claims", "r", "5", { userId: "ann" })),
  "POST /v1/sandbox/claims 422": last(2, enroll("ann"), simulate("claims", "r", "5", { userId: "ann" }), simulate("claims", "r", "5", { userId: "nobody" })),
  "GET /v1/sandbox/clock 200": send("GET", "/v1/sandbox/clock"),
  "PUT /v1/sandbox/clock 200": send("PUT", "/v1/sandbox/clock", { now: "2090-01-01T00:00:00Z" }),
  "PUT /v1/sandbox/clock 422": last(1, ["PUT", "/v1/sandbox/clock", { now: "2090-01-01T00:00:00Z" }], ["PUT", "/v1/sandbox/clock", { now: "2080-01-01T00:00:00Z" }])
}

/** A ping sent anew. */
function redelivered(request: Send) {
  return Effect.gen(function*() {
    yield* request(...withJson(createEndpoint))
    const { body } = yield* request("POST", "/v1/webhook-endpoints/e/ping")
    return [yield* request("POST", `/v1/webhook-endpoints/e/deliveries/${String(body["eventId"])}/redeliver`)]
  })
}

function publish(version: number, changes: Readonly<Record<string, unknown>>) {
  return ["PUT", `/v1/programs/p/versions/${version}`, definition(changes)] as const
}

/** A reward of 1234500 units that is claimable at once, and enough money for it. */
const earn = Effect.fnUntraced(function*(request: Send) {
  const processing = yield* Processing
  for (const sent of [
    enroll("ann"),
    publish(1, { holdingPeriodDays: 0, categories: [], categoryRates: [] }),
    ["PUT", "/v1/sandbox/clock", { now: "2100-01-01T00:00:00.000Z" }] as const,
    spend({ occurredAt: "2099-12-02T00:00:00.000Z" }),
    simulate("deposits", "d", "1234500")
  ]) yield* request(...withJson(sent))
  yield* Effect.repeat(processing.processEvents, { while: (count) => count > 0 })
})

/** The claim of a part, twice by the same request. */
const claim = Effect.fnUntraced(function*(request: Send) {
  yield* earn(request)
  const sent = withJson(simulate("claims", "c", "1000", { userId: "ann" }))
  return [yield* request(...sent), yield* request(...sent)]
})

/** Requests as a new integrator. */
const asNew = Effect.fnUntraced(function*(integratorId: string) {
  const api = yield* TestApi
  const integrators = yield* Integrators
  const key = Redacted.value((yield* integrators.create(IntegratorId.make(integratorId))).apiKey)
  const request: Send = (method, path, sent = {}) => api.send(method, path, { key, ...asOwn(sent, integratorId) })
  return request
})

/** The explanation of a reward. */
const explained = Effect.fnUntraced(function*(request: Send) {
  yield* earn(request)
  const { body } = yield* request("GET", "/v1/users/ann/rewards")
  const [, id = ""] = /"id":"([^"]+)"/.exec(JSON.stringify(body)) ?? []
  return [yield* request("GET", `/v1/users/ann/rewards/${encodeURIComponent(id)}/explanation`)]
})

const withJson = ([method, path, json]: Request): [string, string, Sent] => [method, path, { json }]

/** Two purchases, of which the api under test simulates one, and candidates that are refused. */
const simulated = Effect.fnUntraced(function*(request: Send) {
  yield* earn(request)
  yield* request(...withJson(spend({ externalTransactionId: "t2", occurredAt: "2099-12-03T00:00:00Z" })))
  const processing = yield* Processing
  yield* Effect.repeat(processing.processEvents, { while: (count) => count > 0 })
  const december = { ...november, to: "2100-01-01T00:00:00Z" }
  const refused = { ...december, definition: { ...definition(), asset: "EURe", baseRat: 1 } }
  const path = "/v1/programs/p/simulations"
  return [yield* request("POST", path, { json: december }), yield* request("POST", path, { json: refused })]
})

/** Cases that need what the worker does. */
const workerCases = {
  "POST /v1/programs/{programId}/simulations 422": simulated,
  "POST /v1/sandbox/claims 202": claim,
  "GET /v1/users/{userId}/rewards/{rewardId}/explanation 200": explained
}
const workerCase = (name: string) => Object.entries(workerCases).find(([key]) => key === name)?.[1]

/** `GET /v1/users/{userId}` as a request; the ids need not exist. */
const border = ({ hasBody, name }: Operation): [method: string, path: string, sent: Sent] => {
  const [method = "", path = ""] = name.split(" ")
  const query = name === "GET /v1/spend-events" ? "?state=waiting" : ""
  return [method, `${path.replace("{version}", "1").replace(/\{\w+\}/g, "x")}${query}`, hasBody ? { json: {} } : {}]
}

/** The same with a path, a query or a body that has not the expected shape; undefined where nothing can be wrong. */
const misshapen = (operation: Operation): [method: string, path: string, sent: Sent] | undefined => {
  const [method, path] = border(operation)
  if (operation.hasBody) return [method, path, { raw: "{" }]
  if (["GET /v1/spend-events", "GET /v1/events"].includes(operation.name)) return [method, `${path.split("?")[0]}?limit=x`, {}]
  if (operation.name.includes("{")) return [method, operation.name.replace(/^\w+ /, "").replace("{version}", "1").replace(/\{\w+\}/g, "%00"), {}]
  return undefined
}

const names = declared.flatMap(({ name, statuses }) => statuses.map((status) => `${name} ${status}`))
const own = declared.flatMap((operation) =>
  operation.statuses
    .map((status) => ({ operation, status, name: `${operation.name} ${status}` }))
    .filter(({ name, status }) => !(operation.authenticated && borderStatuses.includes(status)) || name in cases)
)

describe("the table of operations and statuses", () => {
  it("has a case for every declared status that is not the border's, and no other", () => {
    assert.sameMembers([...Object.keys(cases), ...Object.keys(workerCases)], own.map(({ name }) => name))
  })

  it("declares the border's statuses on every authenticated operation, and on no other", () => {
    for (const { authenticated, name, statuses } of declared) {
      assert.strictEqual(authenticated, name !== "GET /health")
      assert.includeMembers([...statuses], authenticated ? borderStatuses : [204])
    }
  })

  it(`counts ${names.length}`, () => assert.strictEqual(new Set(names).size, names.length))
})

const options = { timeout: "60 seconds", excludeTestServices: true } as const

/** Processes what the api stored, in the same database. */
const withProcessing = (api: ReturnType<typeof TestApi.layer>) =>
  Layer.unwrap(Effect.map(TestApi, ({ databaseUrl }) =>
    Processing.layer.pipe(
      Layer.provide(Programs.layer),
      Layer.provide(Database.layer({ url: databaseUrl, poolSize: 2, applicationName: "contract test" })),
      Layer.provide(Environment.layer("sandbox"))
    ))).pipe(Layer.provideMerge(api))

layer(withProcessing(TestApi.layer()), options)("each operation answers each status it declares:", (it) => {
  own.forEach(({ name, operation, status }, index) =>
    it.effect(name, () =>
      Effect.gen(function*() {
        const request = yield* asNew(`i${index}`)
        const answers = yield* (workerCase(name) ?? cases[name])?.(request) ?? Effect.succeed([])
        assert.isNotEmpty(answers)
        for (const answer of answers) {
          assert.strictEqual(answer.status, status, answer.text)
          conforms(operation, answer)
        }
        const tags = answers.map(({ body }) => body["_tag"])
        if (status >= 400) assert.includeMembers([...operation.tags(status)].filter((tag) => tag !== "IntegratorSuspended"), tags)
        if (status >= 400) assert.includeMembers(tags, operation.tags(status).filter((tag) => tag !== "IntegratorSuspended"))
        if (answers.length === 2 && "duplicate" in (answers[0]?.body ?? {})) {
          assert.deepStrictEqual(answers.map(({ body }) => body["duplicate"]), [false, true])
        }
      }))
  )
})

/** A spend event of the integrator that sends it. */
const asOwn = (sent: Sent, integratorId: string): Sent => {
  const { json } = sent
  return typeof json === "object" && json !== null && "integratorId" in json && json.integratorId === "acme"
    ? { ...sent, json: { ...json, integratorId } }
    : sent
}

const authenticated = declared.filter((operation) => operation.authenticated)
const refused = (operation: Operation, answer: Answer, status: number, tag: string) => {
  conforms(operation, answer)
  assert.strictEqual(answer.status, status, answer.text)
  assert.strictEqual(answer.body["_tag"], tag)
  assert.isString(answer.body["message"])
}

layer(TestApi.layer(), options)("the border of every authenticated operation:", (it) => {
  for (const operation of authenticated) {
    const shapeless = misshapen(operation)
    if (shapeless !== undefined) {
      it.effect(`${operation.name} 400`, () =>
        Effect.gen(function*() {
          const answer = yield* (yield* TestApi).send(...shapeless)
          refused(operation, answer, 400, "InvalidRequest")
          assert.strictEqual(answer.body["part"], operation.hasBody ? "body" : operation.name.includes("{") ? "path" : "query")
        }))
    } else {
      it.effect(`${operation.name} 400 cannot be: it takes nothing, and ignores what it does not know`, () =>
        Effect.gen(function*() {
          const [method, path] = border(operation)
          assert.strictEqual((yield* (yield* TestApi).send(method, `${path}?limit=x`, { raw: "{" })).status, 200)
        }))
    }

    it.effect(`${operation.name} 401`, () =>
      Effect.gen(function*() {
        const [method, path, sent] = border(operation)
        refused(operation, yield* (yield* TestApi).send(method, path, { ...sent, key: "" }), 401, "Unauthorized")
      }))
  }

  authenticated.forEach((operation, index) =>
    it.effect(`${operation.name} 403 of a suspended integrator`, () =>
      Effect.gen(function*() {
        const request = yield* asNew(`s${index}`)
        yield* (yield* Integrators).suspend(IntegratorId.make(`s${index}`))
        refused(operation, yield* request(...border(operation)), 403, "IntegratorSuspended")
      }))
  )
})

const tiny = { perSecond: 1, burst: 1 }
layer(TestApi.layer({ limits: { ingest: tiny, read: tiny, manage: tiny } }), options)("beyond its rate limit, with Retry-After:", (it) => {
  authenticated.forEach((operation, index) =>
    it.effect(`${operation.name} 429`, () =>
      Effect.gen(function*() {
        const request = yield* asNew(`l${index}`)
        const answers = yield* Effect.forEach(Array.from({ length: 5 }), () => request(...border(operation)), { concurrency: 5 })
        const limited = answers.filter(({ status }) => status === 429)
        assert.isAbove(limited.length, 2)
        for (const answer of limited) {
          refused(operation, answer, 429, "RateLimited")
          assert.strictEqual(answer.headers["retry-after"], `${String(answer.body["retryAfterSeconds"])}`)
          assert.property(answer.headers, "ratelimit-policy")
        }
      }))
  )
})

/** The key is known to the service when the database goes away. */
const cutOff = Layer.effectDiscard(Effect.gen(function*() {
  const api = yield* TestApi
  yield* api.send("GET", "/v1/programs")
  yield* (yield* DatabaseProxy).cut
})).pipe(Layer.provideMerge(TestApi.layer({ throughProxy: true })), Layer.provideMerge(DatabaseProxy.layer))

layer(cutOff, options)("with the database away, for a known key and a well-formed request, with Retry-After:", (it) => {
  for (const operation of authenticated) {
    it.effect(`${operation.name} 503`, () =>
      Effect.gen(function*() {
        const [method, path] = border(operation)
        const json = wellFormed[operation.name]
        assert.strictEqual(json !== undefined, operation.hasBody)
        const answer = yield* (yield* TestApi).send(method, path, { json })
        refused(operation, answer, 503, "Unavailable")
        assert.match(answer.headers["retry-after"] ?? "", /^[1-9]/)
      }))
  }
})

/** A body for each operation that takes one. */
const wellFormed: Readonly<Record<string, unknown>> = {
  "POST /v1/spend-events": clearing(),
  "PUT /v1/users/{userId}": {},
  "PUT /v1/programs/{programId}/versions/{version}": definition(),
  "POST /v1/programs/{programId}/simulations": november,
  "POST /v1/api-keys": { name: "k" },
  "POST /v1/webhook-endpoints": { id: "e", url },
  "PATCH /v1/webhook-endpoints/{id}": { url },
  "POST /v1/sandbox/deposits": { reference: "r", amount: usdc("1") },
  "POST /v1/sandbox/withdrawals": { reference: "r", amount: usdc("1") },
  "POST /v1/sandbox/claims": { reference: "r", amount: usdc("1"), userId: "ann" },
  "PUT /v1/sandbox/clock": { now: "2090-01-01T00:00:00Z" }
}

type Request = readonly [method: string, path: string, json?: unknown]

/** Two requests at the same moment, and the two answers, whichever request each of them is to. */
interface Pair {
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

const createKey = (name: string): Request => ["POST", "/v1/api-keys", { name }]
const vaultHolds = (amount: string) => ["/v1/sandbox/vault", `"asset":"USDC","held":"${amount}"`] as const
const pairs: ReadonlyArray<Pair> = [
  { name: "the same user", at: [enroll("ann"), enroll("ann")], answers: ["200 enrolled", "200 unchanged"] },
  { name: "a user with other attributes", at: [["PUT", "/v1/users/ann", { tier: "a" }], ["PUT", "/v1/users/ann", { tier: "b" }]], answers: ["200 enrolled", "200 updated"] },
  {
    name: "a user with other referrers",
    before: [enroll("bob"), enroll("eve")],
    at: [["PUT", "/v1/users/ann", { referredBy: "bob" }], ["PUT", "/v1/users/ann", { referredBy: "eve" }]],
    answers: ["200 enrolled", "409 ReferrerConflict"]
  },
  { name: "the same spend event", before: [enroll("ann")], at: [spend({}), spend({})], answers: ["202 false", "202 true"], rows: 1 },
  {
    name: "a spend event with other content",
    before: [enroll("ann")],
    at: [spend({}), spend({ amount: { currency: "USD", amount: "1" } })],
    answers: ["202 false", "409 SpendEventConflict"],
    rows: 1
  },
  { name: "the same program version", at: [publish(1, {}), publish(1, {})], answers: ["200 false", "200 true"] },
  { name: "a program version with other content", at: [publish(1, {}), publish(1, { baseRate: 1 })], answers: ["200 false", "409 ProgramVersionConflict"] },
  {
    name: "two versions with other assets",
    at: [publish(1, {}), publish(2, { asset: "EURe" })],
    answers: ["200 false", "422 ProgramRefused"]
  },
  { name: "the same key", at: [createKey("k"), createKey("k")], answers: ["201 false", "201 true"] },
  {
    name: "the last of 20 keys",
    before: Array.from({ length: 18 }, (_, index) => createKey(`k${index}`)),
    at: [createKey("a"), createKey("b")],
    answers: ["201 false", "422 ApiKeyLimit"]
  },
  { name: "the same endpoint", at: [createEndpoint, createEndpoint], answers: ["201 false", "201 true"] },
  { name: "an endpoint with another URL", at: [createEndpoint, ["POST", "/v1/webhook-endpoints", { id: "e", url: `${url}/b` }]], answers: ["201 false", "409 WebhookEndpointConflict"] },
  { name: "two endpoints", at: [createEndpoint, ["POST", "/v1/webhook-endpoints", { id: "f", url }]], answers: ["201 false", "422 WebhookEndpointLimit"] },
  { name: "the same deposit", at: [simulate("deposits", "r", "5"), simulate("deposits", "r", "5")], answers: ["200 false", "200 true"], then: vaultHolds("5") },
  { name: "a deposit of another amount", at: [simulate("deposits", "r", "5"), simulate("deposits", "r", "6")], answers: ["200 false", "409 SimulationConflict"] },
  {
    name: "the same withdrawal",
    before: [simulate("deposits", "d", "10")],
    at: [simulate("withdrawals", "r", "6"), simulate("withdrawals", "r", "6")],
    answers: ["200 false", "200 true"],
    then: vaultHolds("4")
  },
  {
    name: "two withdrawals of more than is free",
    before: [simulate("deposits", "d", "10")],
    at: [simulate("withdrawals", "r", "6"), simulate("withdrawals", "s", "6")],
    answers: ["200 false", "422 SimulationRefused"],
    then: vaultHolds("4")
  },
  {
    name: "the same claim",
    earned: true,
    at: [simulate("claims", "c", "1000000", { userId: "ann" }), simulate("claims", "c", "1000000", { userId: "ann" })],
    answers: ["202 false", "202 true"],
    then: vaultHolds("234500")
  },
  {
    name: "a claim of another amount",
    earned: true,
    at: [simulate("claims", "c", "1000", { userId: "ann" }), simulate("claims", "c", "1001", { userId: "ann" })],
    answers: ["202 false", "409 SimulationConflict"]
  },
  {
    name: "two claims of more than is claimable",
    earned: true,
    at: [simulate("claims", "c", "1000000", { userId: "ann" }), simulate("claims", "b", "1000000", { userId: "ann" })],
    answers: ["202 false", "422 SimulationRefused"],
    then: vaultHolds("234500")
  }
]

const summary = ({ body, status }: Answer) => `${status} ${String(body["_tag"] ?? body["outcome"] ?? body["duplicate"])}`

layer(withProcessing(TestApi.layer()), options)("of two requests at the same moment one is new, in 10 of 10:", (it) => {
  pairs.forEach((pair, index) =>
    it.effect(pair.name, () =>
      Effect.forEach(Array.from({ length: 10 }, (_, round) => `c${index}-${round}`), (integratorId) =>
        Effect.gen(function*() {
          const request = yield* asNew(integratorId)
          for (const sent of pair.before ?? []) yield* request(...withJson(sent))
          if (pair.earned) yield* earn(request)
          const answers = yield* Effect.forEach(pair.at, (sent) => request(...withJson(sent)), { concurrency: 2 })
          assert.deepStrictEqual(answers.map(summary).sort(), [...pair.answers], JSON.stringify(answers.map(({ text }) => text)))
          const secrets = answers.filter(({ body }) => "secret" in body)
          assert.isAtMost(secrets.length, 1)
          const [path, text] = pair.then ?? ["/v1/programs", ""]
          const read = yield* request("GET", path)
          assert.strictEqual(read.status, 200, read.text)
          assert.include(read.text, text)
          if (pair.rows !== undefined) {
            const sql = yield* SqlClient.SqlClient
            const rows = yield* sql`SELECT 1 FROM spend_events WHERE integrator_id = ${integratorId}`
            assert.strictEqual(rows.length, pair.rows)
          }
          // sent again, neither is new
          for (const sent of pair.at) assert.notStrictEqual(summary(yield* request(...withJson(sent))), pair.answers[0])
        })))
  )
})
