import { Integrators } from "@card-rewards/core/Integrators"
import type { Answer, Sent } from "@card-rewards/testing/HttpExchange"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { IntegratorId } from "@card-rewards/domain/Ids"
import {
  clearing,
  definition,
  hookUrl as url,
  november,
  type Request,
  type Send,
  usdc
} from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { OpenApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import { cases } from "./contract/Cases.ts"
import { pairs } from "./contract/Pairs.ts"
import { earn } from "./contract/Earning.ts"
import { assertDeclared, endpoints } from "./Declared.ts"
import { workerCase, workerCases } from "./contract/WorkerCases.ts"

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

/** The answer has the declared body, and nothing beside it. */
const conforms = ({ name }: Operation, answer: Answer) => {
  const endpoint = endpoints.find((one) => one.name === name)
  if (endpoint === undefined) return assert.fail(`${name} is not in the definition`)
  assertDeclared(endpoint, answer, name)
}

/** What the pipeline adds to every authenticated operation. */
const borderStatuses = [400, 401, 403, 429, 503]

/** Requests as a new integrator, whose spend events are its own. */
const asNew = Effect.fnUntraced(function*(name: string) {
  const { send } = yield* newIntegrator(name)
  const asOwn = (json: unknown): unknown =>
    typeof json !== "object" || json === null
      ? json
      : "integratorId" in json && json.integratorId === "acme"
      ? { ...json, integratorId: name }
      : "events" in json && Array.isArray(json.events)
      ? { events: json.events.map(asOwn) }
      : json
  const request: Send = (method, path, json) => send(method, path, asOwn(json))
  return request
})

/** `GET /v1/users/{userId}` as a request; the ids need not exist. */
const border = ({ hasBody, name }: Operation): Request => {
  const [method = "", path = ""] = name.split(" ")
  const query = name === "GET /v1/spend-events"
    ? "?state=waiting"
    : name === "GET /v1/statements/{asset}"
    ? "?from=2026-01-01&to=2026-01-31"
    : ""
  const filled = path.replace("{version}", "1").replace("{kind}", "clearing").replace("{asset}", "EURe")
    .replace(/\{\w+\}/g, "x")
  return [method, `${filled}${query}`, hasBody ? {} : undefined]
}

/** The same with a path, a query or a body that has not the expected shape; undefined where nothing can be wrong. */
const misshapen = (operation: Operation): [method: string, path: string, sent: Sent] | undefined => {
  const [method, path] = border(operation)
  if (operation.hasBody) return [method, path, { raw: "{" }]
  const lists = ["GET /v1/spend-events", "GET /v1/events", "GET /v1/journal", "GET /v1/journal/seals"]
  if (lists.includes(operation.name)) {
    return [method, `${path.split("?")[0]}?limit=x`, {}]
  }
  if (operation.name.includes("{")) {
    const broken = operation.name.replace(/^\w+ /, "").replace("{version}", "1").replace(/\{\w+\}/g, "%00")
    return [method, broken, {}]
  }
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

const options = { excludeTestServices: true } as const

layer(TestApi.withProcessing(), options)("each operation answers each status it declares:", (it) => {
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
        if (status >= 400) {
          const declaredTags = operation.tags(status).filter((tag) => tag !== "IntegratorSuspended")
          const tags = answers.map(({ body }) => body["_tag"])
          assert.sameMembers([...new Set(tags)], [...new Set(declaredTags)])
        }
        if (answers.length === 2 && "duplicate" in (answers[0]?.body ?? {})) {
          assert.deepStrictEqual(answers.map(({ body }) => body["duplicate"]), [false, true])
        }
      }))
  )
})

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
          const part = operation.hasBody ? "body" : operation.name.includes("{") ? "path" : "query"
          assert.strictEqual(answer.body["part"], part)
        }))
    } else {
      it.effect(`${operation.name} 400 cannot be: it takes nothing, and ignores what it does not know`, () =>
        Effect.gen(function*() {
          const [method, path] = border(operation)
          const { status } = yield* (yield* TestApi).send(method, `${path}?limit=x`, { raw: "{" })
          assert.include(operation.statuses.filter((declared) => declared === 200 || declared === 404), status)
        }))
    }

    it.effect(`${operation.name} 401`, () =>
      Effect.gen(function*() {
        const [method, path, json] = border(operation)
        refused(operation, yield* (yield* TestApi).send(method, path, { json, key: "" }), 401, "Unauthorized")
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
const limited = TestApi.layer({ limits: { ingest: tiny, read: tiny, manage: tiny } })

layer(limited, options)("beyond its rate limit, with Retry-After:", (it) => {
  authenticated.forEach((operation, index) =>
    it.effect(`${operation.name} 429`, () =>
      Effect.gen(function*() {
        const request = yield* asNew(`l${index}`)
        const five = Array.from({ length: 5 }, () => request(...border(operation)))
        const answers = yield* Effect.all(five, { concurrency: 5 })
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
  yield* (yield* NetworkProxy).cut
})).pipe(Layer.provideMerge(TestApi.behindProxy()))

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
  "POST /v1/spend-events/batch": { events: [clearing()] },
  "PUT /v1/users/{userId}": {},
  "POST /v1/users/{userId}/quotes": {
    amount: { currency: "USD", amount: "1" },
    merchant: { descriptor: "S", mcc: "5411" }
  },
  "PUT /v1/programs/{programId}/versions/{version}": definition(),
  "POST /v1/programs/{programId}/simulations": november,
  "POST /v1/api-keys": { name: "k" },
  "POST /v1/webhook-endpoints": { id: "e", url },
  "PATCH /v1/webhook-endpoints/{id}": { url },
  "POST /v1/webhook-endpoints/{id}/replays": { from: "2026-01-01T00:00:00Z" },
  "PUT /v1/vault/low-funds/{asset}": { threshold: "1" },
  "POST /v1/sandbox/deposits": { reference: "r", amount: usdc("1") },
  "POST /v1/sandbox/withdrawals": { reference: "r", amount: usdc("1") },
  "POST /v1/sandbox/claims": { reference: "r", amount: usdc("1"), userId: "ann" },
  "PUT /v1/sandbox/clock": { now: "2090-01-01T00:00:00Z" }
}

const summary = ({ body, status }: Answer) =>
  `${status} ${String(body["_tag"] ?? body["outcome"] ?? body["duplicate"])}`

layer(TestApi.withProcessing(), options)("of two requests at the same moment one is new, in 10 of 10:", (it) => {
  pairs.forEach((pair, index) =>
    it.effect(pair.name, () =>
      Effect.forEach(Array.from({ length: 10 }, (_, round) => `c${index}-${round}`), (integratorId) =>
        Effect.gen(function*() {
          const request = yield* asNew(integratorId)
          for (const sent of pair.before ?? []) yield* request(...sent)
          if (pair.earned) yield* earn(request)
          const answers = yield* Effect.forEach(pair.at, (sent) => request(...sent), { concurrency: 2 })
          const texts = answers.map(({ text }) => text)
          assert.deepStrictEqual(answers.map(summary).toSorted(), [...pair.answers], texts.join("\n"))
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
          for (const sent of pair.at) assert.notStrictEqual(summary(yield* request(...sent)), pair.answers[0])
        })))
  )
})
