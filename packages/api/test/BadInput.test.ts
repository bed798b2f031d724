import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { clearing, definition, type Sent, TestApi } from "./TestApi.ts"

type Part = "body" | "query" | "path"

/** A request that is refused with 400, the part at fault, and what the message must hold. */
interface Case extends Sent {
  readonly title: string
  readonly method: string
  readonly path: string
  readonly part: Part
  readonly says?: string
}

/** Stands in refused values: no message may repeat it. */
const refusedValue = "S3CRET"

const events: ReadonlyArray<readonly [title: string, json: unknown, says: string]> = [
  ["an unknown kind", clearing({ kind: refusedValue }), "$.kind: expected one of authorization, incremental_authorization, clearing, reversal, refund"],
  ["no kind", clearing({ kind: undefined }), "$.kind: expected one of authorization"],
  ["a number as kind", clearing({ kind: 1 }), "$.kind: expected one of"],
  ["null as kind", clearing({ kind: null }), "$.kind: expected one of"],
  ["an array", [], "$.kind: expected one of"],
  ["null", null, "$.kind: expected one of"],
  ["a string", refusedValue, "$.kind: expected one of"],
  ["a number", 12, "$.kind: expected one of"],
  ["true", true, "$.kind: expected one of"],
  ["an empty object", {}, "$.kind: expected one of"],
  ["an extra property", clearing({ extra: refusedValue }), "$.extra: is not known"],
  ["an extra property in amount", clearing({ amount: { currency: "USD", amount: "1", extra: 1 } }), "$.amount.extra: is not known"],
  ["an extra property in merchant", clearing({ merchant: { descriptor: "a", mcc: "5411", extra: 1 } }), "$.merchant.extra: is not known"],
  ["another kind's property", clearing({ originalTransactionId: "t0" }), "$.originalTransactionId: is not known"],
  ["a reversal without authorizationId", clearing({ kind: "reversal" }), "$.authorizationId: is missing"],
  ["an increment without authorizationId", clearing({ kind: "incremental_authorization" }), "$.authorizationId: is missing"],
  ["a refund without originalTransactionId", clearing({ kind: "refund" }), "$.originalTransactionId: is missing"],
  ["an authorization with authorizationId", clearing({ kind: "authorization", authorizationId: "a" }), "$.authorizationId: is not known"],
  ["null as optional authorizationId", clearing({ authorizationId: null }), "$.authorizationId: expected string"],
  ["no userId", clearing({ userId: undefined }), "$.userId: is missing"],
  ["an empty userId", clearing({ userId: "" }), "$.userId: expected"],
  ["129 characters of userId", clearing({ userId: "x".repeat(129) }), "$.userId: expected"],
  ["129 emoji of userId", clearing({ userId: "😀".repeat(129) }), "$.userId: expected"],
  ["a number as userId", clearing({ userId: 5 }), "$.userId: expected string"],
  ["NUL in userId", clearing({ userId: `${refusedValue}\0` }), "$.userId: expected"],
  ["an unpaired surrogate in userId", clearing({ userId: "\ud800" }), "$.userId: expected"],
  ["no integratorId", clearing({ integratorId: undefined }), "$.integratorId: is missing"],
  ["an empty integratorId", clearing({ integratorId: "" }), "$.integratorId: expected"],
  ["no externalTransactionId", clearing({ externalTransactionId: undefined }), "$.externalTransactionId: is missing"],
  ["an empty externalTransactionId", clearing({ externalTransactionId: "" }), "$.externalTransactionId: expected"],
  ["no amount", clearing({ amount: undefined }), "$.amount: is missing"],
  ["a string as amount", clearing({ amount: "5" }), "$.amount: expected"],
  ["an unknown currency", clearing({ amount: { currency: "XQQ", amount: "1" } }), "$.amount.currency: expected an active ISO 4217 currency code"],
  ["a currency in lower case", clearing({ amount: { currency: "usd", amount: "1" } }), "$.amount.currency: expected"],
  ["a number as amount.amount", clearing({ amount: { currency: "USD", amount: 1 } }), "$.amount.amount: expected string"],
  ["a negative amount", clearing({ amount: { currency: "USD", amount: "-1" } }), "$.amount.amount: expected 1 to 18 decimal digits"],
  ["a fraction", clearing({ amount: { currency: "USD", amount: "1.5" } }), "$.amount.amount: expected 1 to 18 decimal digits"],
  ["an exponent", clearing({ amount: { currency: "USD", amount: "1e3" } }), "$.amount.amount: expected"],
  ["19 digits", clearing({ amount: { currency: "USD", amount: "1".repeat(19) } }), "$.amount.amount: expected"],
  ["an empty amount", clearing({ amount: { currency: "USD", amount: "" } }), "$.amount.amount: expected"],
  ["a space in the amount", clearing({ amount: { currency: "USD", amount: " 1" } }), "$.amount.amount: expected"],
  ["a newline after the amount", clearing({ amount: { currency: "USD", amount: "1\n" } }), "$.amount.amount: expected"],
  ["Arabic digits", clearing({ amount: { currency: "USD", amount: "١٢" } }), "$.amount.amount: expected"],
  ["no merchant", clearing({ merchant: undefined }), "$.merchant: is missing"],
  ["no descriptor", clearing({ merchant: { mcc: "5411" } }), "$.merchant.descriptor: is missing"],
  ["an empty descriptor", clearing({ merchant: { descriptor: "", mcc: "5411" } }), "$.merchant.descriptor: expected"],
  ["201 characters of descriptor", clearing({ merchant: { descriptor: "d".repeat(201), mcc: "5411" } }), "$.merchant.descriptor: expected"],
  ["a 3-digit mcc", clearing({ merchant: { descriptor: "d", mcc: "541" } }), "$.merchant.mcc: expected a 4-digit merchant category code"],
  ["letters in mcc", clearing({ merchant: { descriptor: "d", mcc: "54a1" } }), "$.merchant.mcc: expected"],
  ["a number as mcc", clearing({ merchant: { descriptor: "d", mcc: 5411 } }), "$.merchant.mcc: expected string"],
  ["65 characters of mid", clearing({ merchant: { descriptor: "d", mcc: "5411", mid: "m".repeat(65) } }), "$.merchant.mid: expected"],
  ["an empty mid", clearing({ merchant: { descriptor: "d", mcc: "5411", mid: "" } }), "$.merchant.mid: expected"],
  ["an unknown country", clearing({ merchant: { descriptor: "d", mcc: "5411", country: "XX" } }), "$.merchant.country: expected an ISO 3166-1"],
  ["a country in lower case", clearing({ merchant: { descriptor: "d", mcc: "5411", country: "de" } }), "$.merchant.country: expected"],
  ["no occurredAt", clearing({ occurredAt: undefined }), "$.occurredAt: is missing"],
  ...["2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+00:00", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
    "2026-01-01T00:00:60Z", "2026-01-01T00:00:00.0000Z", "2026-01-01t00:00:00z", "0000-01-01T00:00:00Z",
    "+012026-01-01T00:00:00Z", "2026-01-01T00:00:00.Z", "", "now"].map((occurredAt) =>
    [`"${occurredAt}" as occurredAt`, clearing({ occurredAt }), "$.occurredAt: expected a UTC timestamp"] as const
  ),
  ["a number as occurredAt", clearing({ occurredAt: 0 }), "$.occurredAt: expected string"]
]

const posts = (path: string, refused: ReadonlyArray<readonly [string, unknown, string]>, method = "POST"): ReadonlyArray<Case> =>
  refused.map(([title, json, says]) => ({ title: `${title} to ${path}`, method, path, json, part: "body", says }))

const amount = { asset: "USDC", amount: "1" }

const cases: ReadonlyArray<Case> = [
  ...posts("/v1/spend-events", events),
  ...posts("/v1/users/u", [
    ["an extra property", { name: "Ann" }, "$.name: is not known"],
    ["__proto__", JSON.parse(`{"__proto__": {"a": 1}}`), "$.__proto__: is not known"],
    ["null as tier", { tier: null }, "$.tier: expected string"],
    ["an empty tier", { tier: "" }, "$.tier: expected"],
    ["129 characters of tier", { tier: "t".repeat(129) }, "$.tier: expected"],
    ["an empty segment", { segment: "" }, "$.segment: expected"],
    ["an unknown country", { country: "ZZ" }, "$.country: expected"],
    ["a number as referredBy", { referredBy: 1 }, "$.referredBy: expected string"],
    ["an array", [], "$: expected"],
    ["null", null, "$: expected"]
  ], "PUT"),
  ...posts("/v1/programs/p/versions/1", [
    ["an empty object", {}, "$.asset: is missing"],
    ["an unknown asset", definition({ asset: refusedValue }), "$.asset: expected"],
    ["a fraction as baseRate", definition({ baseRate: 1.5 }), "$.baseRate: expected"],
    ["a string as baseRate", definition({ baseRate: "1" }), "$.baseRate: expected"],
    ["an integer beyond 2^53", definition({ baseRate: 2 ** 53 }), "$.baseRate: expected"],
    ["a malformed MCC", definition({ categories: [{ id: "g", mccs: ["1", "5411"] }] }), "$.categories[0].mccs[0]: expected a 4-digit"],
    ["an empty category id", definition({ categories: [{ id: "", mccs: [] }] }), "$.categories[0].id: expected"],
    ["a malformed cap", definition({ caps: { perMonth: "-1", categories: [] } }), "$.caps.perMonth: expected"],
    ["79 digits of cap", definition({ caps: { perMonth: "1".repeat(79), categories: [] } }), "$.caps.perMonth: expected"],
    ["a missing list", definition({ tiers: undefined }), "$.tiers: is missing"],
    ["a malformed timestamp", definition({ effectiveFrom: "tomorrow" }), "$.effectiveFrom: expected"],
    ["null as eligibility", definition({ eligibility: null }), "$.eligibility: expected"]
  ], "PUT"),
  ...posts("/v1/api-keys", [
    ["no name", {}, "$.name: is missing"],
    ["an empty name", { name: "" }, "$.name: expected"],
    ["a control character", { name: "a\nb" }, "$.name: expected"],
    ["129 characters", { name: "n".repeat(129) }, "$.name: expected"],
    ["an extra property", { name: "n", scope: refusedValue }, "$.scope: is not known"]
  ]),
  ...posts("/v1/webhook-endpoints", [
    ["no url", { id: "e" }, "$.url: is missing"],
    ["no id", { url: "https://a.example" }, "$.id: is missing"],
    ["2049 characters of url", { id: "e", url: `https://a.example/${"u".repeat(2031)}` }, "$.url: expected"],
    ["an empty url", { id: "e", url: "" }, "$.url: expected"],
    ["an extra property", { id: "e", url: "https://a.example", secret: refusedValue }, "$.secret: is not known"]
  ]),
  ...posts("/v1/webhook-endpoints/e", [["an empty body", {}, "$.url: is missing"], ["an id", { id: "x", url: "https://a.example" }, "$.id: is not known"]], "PATCH"),
  ...["deposits", "withdrawals", "claims"].flatMap((operation) =>
    posts(`/v1/sandbox/${operation}`, [
      ["no reference", { amount, userId: "u" }, "$.reference: is missing"],
      ["an empty reference", { reference: "", amount, userId: "u" }, "$.reference: expected"],
      ["a control character", { reference: "a\u0007", amount, userId: "u" }, "$.reference: expected"],
      ["an unknown asset", { reference: "r", amount: { asset: "BTC", amount: "1" }, userId: "u" }, "$.amount.asset: expected"],
      ["79 digits", { reference: "r", amount: { asset: "USDC", amount: "9".repeat(79) }, userId: "u" }, "$.amount.amount: expected"],
      ["an extra property", { reference: "r", amount, userId: "u", extra: 1 }, "$.extra: is not known"]
    ])
  ),
  ...posts("/v1/sandbox/claims", [["no userId", { reference: "r", amount }, "$.userId: is missing"]]),
  ...posts("/v1/sandbox/deposits", [["a userId", { reference: "r", amount, userId: "u" }, "$.userId: is not known"]]),
  ...posts("/v1/sandbox/clock", [["no now", {}, "$.now: is missing"], ["no timestamp", { now: "later" }, "$.now: expected"]], "PUT"),
  ...["0", "101", "1000", "-1", "1.5", "abc", "", "%20", "+5", "1e1"].map((limit): Case => ({
    title: `limit=${limit}`, method: "GET", path: `/v1/users/u/rewards?limit=${limit}`, part: "query", says: "limit: expected an integer from 1 to 100"
  })),
  { title: "limit twice", method: "GET", path: "/v1/users/u/rewards?limit=1&limit=2", part: "query", says: "limit: expected" },
  { title: "an empty cursor", method: "GET", path: "/v1/users/u/rewards?cursor=", part: "query" },
  { title: "a long cursor", method: "GET", path: `/v1/users/u/rewards?cursor=${"c".repeat(513)}`, part: "query" },
  ...["%", "%zz", "%e4", "%ff%fe", "a%2", "%c0%80", "%ed%a0%80", "%00", "x".repeat(129), "%F0%9F%98%80".repeat(129)].map((id): Case => ({
    title: `${id.slice(0, 20)} as userId`, method: "GET", path: `/v1/users/${id}`, part: "path", says: "userId: expected"
  })),
  ...["0", "01", "-1", "2147483648", "99999999999", "1.0", "one", "%31%zz"].map((version): Case => ({
    title: `version ${version}`, method: "PUT", path: `/v1/programs/p/versions/${version}`, json: definition(), part: "path", says: "version: expected"
  })),
  { title: "a colon in programId", method: "GET", path: "/v1/programs/a:b", part: "path", says: "programId: expected" },
  { title: "a control character in a key's name", method: "DELETE", path: "/v1/api-keys/a%07", part: "path", says: "name: expected" },
  { title: "a bad path before a bad body", method: "PUT", path: "/v1/users/%zz", raw: "{", part: "path" },
  { title: "a bad path before a bad content type", method: "PUT", path: "/v1/users/%zz", raw: "{}", headers: { "content-type": "text/plain" }, part: "path" },
  ...["{", "", "{} {}", "nul", "'a'", "{\"a\":1,}", "NaN", "\u0000"].map((raw): Case => ({
    title: `the text ${JSON.stringify(raw)}`, method: "PUT", path: "/v1/users/u", raw, part: "body"
  })),
  { title: "no body at all", method: "PUT", path: "/v1/users/u", part: "body", says: "application/json" },
  ...["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", "application/json; charset=latin1", "*/*", "json"].map((type): Case => ({
    title: `content type ${JSON.stringify(type)}`, method: "PUT", path: "/v1/users/u", raw: "{}", headers: { "content-type": type }, part: "body", says: "expected the content type application/json"
  })),
  { title: "invalid UTF-8", method: "PUT", path: "/v1/users/u", raw: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), part: "body", says: "expected JSON in UTF-8" },
  { title: "a body over 256 KiB", method: "PUT", path: "/v1/users/u", raw: " ".repeat(256 * 1024) + "{}", part: "body", says: "262144 bytes" },
  { title: "a body far over 256 KiB", method: "PUT", path: "/v1/users/u", raw: " ".repeat(1_000_000), part: "body", says: "262144 bytes" },
  { title: "a chunked body over 256 KiB", method: "PUT", path: "/v1/users/u", raw: " ".repeat(400_000), headers: { "content-length": "", "transfer-encoding": "chunked" }, part: "body", says: "262144 bytes" },
  { title: "a body that is deeply nested", method: "PUT", path: "/v1/users/u", raw: "[".repeat(100_000), part: "body" }
]

layer(TestApi.layer(), { timeout: "60 seconds", excludeTestServices: true })(`what is refused with 400 (${cases.length} requests)`, (it) => {
  for (const { json, method, part, path, says, title, ...sent } of cases) {
    it.effect(title, () =>
      Effect.gen(function*() {
        const api = yield* TestApi
        const answer = yield* api.send(method, path, { ...sent, json })
        assert.strictEqual(answer.status, 400, answer.text)
        assert.strictEqual(answer.body["_tag"], "InvalidRequest")
        assert.strictEqual(answer.body["part"], part, answer.text)
        const message = String(answer.body["message"])
        if (says !== undefined) assert.include(message, says)
        assert.notInclude(message, refusedValue)
        assert.isBelow(message.length, 2_000)
      }))
  }

  it.effect("several problems are told at once", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const answer = yield* api.send("POST", "/v1/spend-events", { json: clearing({ userId: "", occurredAt: "x", extra: 1 }) })
      const message = String(answer.body["message"])
      for (const path of ["$.userId", "$.occurredAt", "$.extra"]) assert.include(message, path)
    }))
})
