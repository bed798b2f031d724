import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { clearing, definition, type Request } from "@card-rewards/testing/Requests"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { SqlClient } from "effect/sql"

/** Code for programs that do not keep text apart from code. Without `:` and control characters all fields take it. */
const printable = [
  "'; DROP TABLE users; --",
  "' OR '1'='1",
  "x', 'y'); DELETE FROM journal; --",
  "\\'; SELECT pg_sleep(10); --",
  "\"; TRUNCATE events; --",
  "$1 $$ $tag$ ${value} {{value}} %s %n %00 #{1}",
  "{\"a\",NULL}",
  "%27%20OR%201=1 ../../../etc/passwd",
  "<script>alert(1)</script> {{7*7}}",
  "__proto__",
  "constructor",
  "NULL",
  "\u202Etxet \uFEFF 😀 İ ß"
]
/** For the fields that take any text. */
const unprintable = ["a\r\nx-injected: 1\r\n\r\n<html>", "tab\tand\u001b[31mescape\u0007", "E'\\x27' \u2028 \u0085"]

/** What stands in the fields of one story, by what they take. */
interface Texts {
  readonly any: string
  readonly printable: string
  /** Neither control characters nor `:`. */
  readonly programId: string
}

const url = "https://hooks.example.com/a"
const occurredAt = "2099-12-02T00:00:00.000Z"

/** Every free text of every body and path, filled with the given ones. Requests that must succeed, in order. */
const story = (integratorId: string, { any, printable: name, programId }: Texts): ReadonlyArray<Request> => {
  const of = encodeURIComponent
  const address = `${url}?q=${of(any)}`
  const program = definition({
    holdingPeriodDays: 0,
    categories: [{ id: any, mccs: ["5411"] }],
    categoryRates: [{ categoryId: any, rate: 300 }],
    tiers: [{ tier: any, multiplier: 20000, categoryRates: [{ categoryId: any, rate: 400 }] }],
    campaigns: [{
      id: any,
      startsAt: "2099-12-01T00:00:00.000Z",
      endsAt: "2100-01-01T00:00:00.000Z",
      bonusRate: 100,
      categoryIds: [any]
    }],
    caps: { perMonth: "50000000", categories: [{ categoryId: any, perMonth: "50000000" }] },
    eligibility: { countries: [], segments: [any] }
  })
  const merchant = { descriptor: any, mid: [...any].slice(0, 64).join(""), mcc: "5411" }
  const event = (kind: string, id: string, more: object) =>
    clearing({ kind, integratorId, userId: any, externalTransactionId: id, occurredAt, merchant, ...more })
  const spend = (kind: string, id: string, more: object): Request => [
    "POST",
    "/v1/spend-events",
    event(kind, id, more)
  ]
  return [
    ["PUT", `/v1/users/${of(any)}`, { tier: any, segment: any }],
    ["PUT", "/v1/users/referred", { referredBy: any }],
    ["PUT", `/v1/programs/${of(programId)}/versions/1`, program],
    [
      "POST",
      `/v1/programs/${of(programId)}/simulations`,
      { definition: program, from: "2099-12-01T00:00:00Z", to: "2100-01-01T00:00:00Z" }
    ],
    ["PUT", "/v1/sandbox/clock", { now: "2100-01-01T00:00:00.000Z" }],
    ["POST", "/v1/sandbox/deposits", { reference: name, amount: { asset: "USDC", amount: "50000000" } }],
    ["POST", "/v1/sandbox/withdrawals", { reference: `${name}w`, amount: { asset: "USDC", amount: "1" } }],
    ["POST", "/v1/api-keys", { name }],
    ["POST", "/v1/webhook-endpoints", { id: name, url: address }],
    ["PATCH", `/v1/webhook-endpoints/${of(name)}`, { url: `${address}&more` }],
    ["POST", `/v1/webhook-endpoints/${of(name)}/rotate-secret`],
    ["POST", `/v1/webhook-endpoints/${of(name)}/ping`],
    spend("authorization", any, {}),
    spend("incremental_authorization", `${any}i`, { authorizationId: any }),
    spend("reversal", `${any}r`, { authorizationId: any, amount: { currency: "USD", amount: "1" } }),
    spend("clearing", any, { authorizationId: any }),
    spend("refund", `${any}f`, { originalTransactionId: any, amount: { currency: "USD", amount: "5" } }),
    spend("refund", `${any}w`, { originalTransactionId: `${any}none` }),
    ["POST", "/v1/spend-events/batch", {
      events: [
        event("reversal", `${any}b`, { authorizationId: any, amount: { currency: "USD", amount: "1" } }),
        event("refund", `${any}c`, { originalTransactionId: any, amount: { currency: "USD", amount: "1" } })
      ]
    }],
    ["POST", `/v1/users/${of(any)}/quotes`, { amount: { currency: "USD", amount: "100" }, merchant, occurredAt }]
  ]
}

/** What is read back, and the fields in which each text must stand, as JSON writes it. */
const reads = (integratorId: string, { any, printable: name, programId }: Texts) => {
  const of = encodeURIComponent
  const text = (value: string) => JSON.stringify(value)
  const reward = `rw:${integratorId}:${any}:clearing:${any}:${programId}`
  return [
    [`/v1/users/${of(any)}`, [`"userId":${text(any)}`, `"tier":${text(any)}`, `"segment":${text(any)}`]],
    ["/v1/users/referred", [`"referredBy":${text(any)}`]],
    [`/v1/users/${of(any)}/balance`, [`"userId":${text(any)}`]],
    [
      `/v1/users/${of(any)}/rewards`,
      [`"id":${text(reward)}`, `"programId":${text(programId)}`, `"externalTransactionId":${text(any)}`]
    ],
    [
      `/v1/users/${of(any)}/rewards/${of(reward)}/explanation`,
      [
        `"rewardId":${text(reward)}`,
        `"category":${text(any)}`,
        `"campaignId":${text(any)}`,
        `"externalTransactionId":${text(`${any}f`)}`
      ]
    ],
    [
      `/v1/users/${of(any)}/spend-events/refund/${of(`${any}c`)}`,
      [`"externalTransactionId":${text(`${any}c`)}`, `"descriptor":${text(any)}`]
    ],
    ["/v1/programs", [`"programId":${text(programId)}`]],
    [
      `/v1/programs/${of(programId)}`,
      [
        `"tier":${text(any)}`,
        `"segments":[${text(any)}]`,
        `"categories":[{"id":${text(any)}`,
        `"categoryIds":[${text(any)}]`
      ]
    ],
    ["/v1/api-keys", [`"name":${text(name)}`]],
    ["/v1/webhook-endpoints", [`"id":${text(name)}`, text(`${url}?q=${of(any)}&more`)]],
    [`/v1/webhook-endpoints/${of(name)}/deliveries`, ["reward.pending"]],
    ["/v1/spend-events?state=waiting", [`"descriptor":${text(any)}`, `"originalTransactionId":${text(`${any}none`)}`]],
    ["/v1/events", [`"reference":${text(name)}`, `"reference":${text(`${name}w`)}`, `"id":${text(reward)}`]]
  ] as const
}

/** The rows of everybody else, and every table's name. */
const ofOthers = Effect.fnUntraced(function*(integratorId: string) {
  const sql = yield* SqlClient.SqlClient
  const tables = yield* sql<{ name: string }>`SELECT table_name AS name FROM information_schema.columns
    WHERE table_schema = 'public' AND column_name = 'integrator_id' ORDER BY table_name`
  return yield* Effect.forEach(tables, ({ name }) => sql.unsafe<{ row: string }>(
    `SELECT '${name} ' || count(*) || ' '
        || coalesce(sum(hashtextextended((to_jsonb(t) - 'last_used_at')::text, 0)), 0) AS row
      FROM "${name}" t WHERE integrator_id <> $1`,
    [integratorId]
  )).pipe(Effect.map((rows) => rows.flat().map(({ row }) => row)))
})

const options = { excludeTestServices: true } as const

layer(TestApi.withProcessing(), options)("text that looks like code", (it) => {
  const all = [
    ...printable.map((text): Texts => ({ any: text, printable: text, programId: text })),
    ...unprintable.map((any): Texts => ({ any, printable: "plain", programId: "plain" }))
  ]
  for (const texts of all) {
    it.effect(`is stored and returned as it is: ${JSON.stringify(texts.any)}`, () =>
      Effect.gen(function*() {
        const { integratorId, send } = yield* newIntegrator(`i ${texts.any}`)
        const before = yield* ofOthers(integratorId)
        for (const [method, path, json] of story(integratorId, texts)) {
          const { headers, status, text } = yield* send(method, path, json)
          assert.isBelow(status, 300, `${method} ${path}: ${text}`)
          assert.notProperty(headers, "x-injected")
        }
        yield* processAll
        const claim = { reference: `${texts.printable}c`, amount: { asset: "USDC", amount: "1000" }, userId: texts.any }
        assert.strictEqual((yield* send("POST", "/v1/sandbox/claims", claim)).status, 202)
        for (const [path, expected] of reads(integratorId, texts)) {
          const { headers, status, text } = yield* send("GET", path)
          assert.strictEqual(status, 200, `${path}: ${text}`)
          assert.notProperty(headers, "x-injected")
          for (const one of expected) assert.include(text, one)
        }
        for (const path of ["/v1/webhook-endpoints/", "/v1/api-keys/"]) {
          assert.strictEqual((yield* send("DELETE", `${path}${encodeURIComponent(texts.printable)}`)).status, 200)
        }
        assert.deepStrictEqual(yield* ofOthers(integratorId), before)
      }))
  }

  it.effect("is a wrong key, a bad cursor, a bad URL, or unknown, where text has a meaning", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const { send } = yield* newIntegrator("meaning")
      const before = yield* ofOthers("")
      for (const text of [...printable, ...unprintable]) {
        const encoded = encodeURIComponent(text)
        for (const path of ["/v1/events?after=", "/v1/users/a/rewards?cursor=", "/v1/spend-events?state="]) {
          assert.strictEqual((yield* send("GET", `${path}${encoded}`)).status, 400, path)
        }
        assert.strictEqual((yield* send("GET", `/v1/users/${encoded}`)).status, 404)
        const nowhere = definition({ eligibility: { countries: [text] } })
        assert.strictEqual((yield* send("PUT", "/v1/programs/p/versions/1", nowhere)).body["_tag"], "ProgramRefused")
        // a plain word may be a host's name
        const hosts = /^\w+$/.test(text) ? [] : [`https://${text}.example.com/`]
        for (const address of [text, ...hosts, `https://hooks.example.com:${text}/`]) {
          const refused = yield* send("POST", "/v1/webhook-endpoints", { id: "e", url: address })
          assert.strictEqual(`${refused.status} ${String(refused.body["_tag"])}`, "422 EndpointUrlRefused", address)
        }
        // node's client itself refuses header values with control characters
        if (/^[\x20-\x7e]*$/.test(text)) {
          assert.strictEqual((yield* api.send("GET", "/v1/programs", { key: text })).status, 401)
        }
      }
      assert.deepStrictEqual(yield* ofOthers(""), before)
    }))
})

/** Every path of a request body that takes free text: `.merchant.descriptor`. */
const freeTexts = (): ReadonlySet<string> => {
  const { components, paths } = OpenApi.fromApi(SandboxApi)
  const schemas: Readonly<Record<string, unknown>> = components.schemas
  const found = new Set<string>()
  const visit = (schema: unknown, path: string): void => {
    if (typeof schema !== "object" || schema === null) return
    const parts: Readonly<Record<string, unknown>> = { ...schema }
    const { $ref, allOf, anyOf, enum: values, items, oneOf, pattern, properties, type } = parts
    if (typeof $ref === "string") visit(schemas[$ref.split("/").at(-1) ?? ""], path)
    for (const one of [anyOf, oneOf, allOf].flat()) visit(one, path)
    visit(items, `${path}[]`)
    for (const [name, one] of Object.entries(properties ?? {})) visit(one, `${path}.${name}`)
    if (type === "string" && pattern === undefined && values === undefined) found.add(path)
  }
  for (const item of Object.values(paths)) {
    for (const operation of Object.values(item)) {
      if ("requestBody" in operation) visit(operation.requestBody?.content["application/json"]?.schema, "")
    }
  }
  return found
}

/** The paths in a body at which the text stands. */
const pathsOf = (value: unknown, text: string, path: string): ReadonlyArray<string> =>
  typeof value === "string"
    ? value.includes(text) ? [path] : []
    : Array.isArray(value)
    ? value.flatMap((one) => pathsOf(one, text, `${path}[]`))
    : typeof value === "object" && value !== null
    ? Object.entries(value).flatMap(([name, one]) => pathsOf(one, text, `${path}.${name}`))
    : []

describe("text that looks like code", () => {
  it("stands in every free text of every body", () => {
    const texts = { any: "MARK", printable: "MARK", programId: "MARK" }
    const tried = new Set(story("MARK", texts).flatMap(([, , json]) => pathsOf(json, "MARK", "")))
    const untried = [...freeTexts()].filter((path) => !tried.has(path))
    // countries that do not exist are problems of the program, see above
    assert.sameMembers(untried, [".eligibility.countries[]", ".definition.eligibility.countries[]"])
  })
})
