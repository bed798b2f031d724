import { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { clearing } from "@card-rewards/testing/Requests"
import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import { decodeCompiled } from "../src/SpendEventDecoder.ts"

const bySchema = Schema.decodeUnknownOption(SpendEvent, { onExcessProperty: "error" })

const same = (json: unknown) =>
  assert.deepStrictEqual(decodeCompiled(json), Option.getOrUndefined(bySchema(json)), JSON.stringify(json))

/** Values that are valid in one field or another, and others. */
const values: ReadonlyArray<unknown> = [
  "", "x", "0", "1".repeat(19), "USD", "XXX", "5411", "54111", "DE", "clearing", "refund", "\0", "\ud800",
  "x".repeat(201),
  "2026-02-29T00:00:00Z", "2024-02-29T23:59:59.1Z", "0000-01-01T00:00:00Z", "2026-01-01T24:00:00Z",
  null, true, 0, 1.5, [], ["x"], {}, { currency: "USD" }, { descriptor: "x", mcc: "0000" }
]
const paths = [
  ["kind"], ["integratorId"], ["userId"], ["externalTransactionId"], ["amount"], ["amount", "currency"],
  ["amount", "amount"], ["amount", "more"], ["merchant"], ["merchant", "descriptor"], ["merchant", "mcc"],
  ["merchant", "mid"], ["merchant", "country"], ["merchant", "__proto__"], ["occurredAt"], ["authorizationId"],
  ["originalTransactionId"], ["more"], ["__proto__"]
] as const

const set = (object: Record<string, unknown>, [first, second]: ReadonlyArray<string>, value: unknown) => {
  const inner = object[first ?? ""]
  if (second === undefined) return { ...object, [first ?? ""]: value }
  return typeof inner === "object" && inner !== null ?
    { ...object, [first ?? ""]: { ...inner, [second]: value } } :
    object
}

const indexBelow = (length: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: length - 1 }))
const Changes = Schema.Array(Schema.Struct({ path: indexBelow(paths.length), value: indexBelow(values.length) }))
  .check(Schema.isMaxLength(3))

describe("the compiled decoder of spend events", () => {
  it.prop("decodes every event as the schema does", [SpendEvent], ([event]) => {
    same(Schema.encodeSync(SpendEvent)(event))
  }, { arbitrary: { runs: 300 } })

  it.prop("refuses what the schema refuses", [Changes], ([changes]) => {
    const base: Record<string, unknown> = clearing({ authorizationId: "a" })
    same(changes.reduce((json, { path, value }) => set(json, paths[path] ?? [], values[value]), base))
  }, { arbitrary: { runs: 3_000 } })

  it("refuses other shapes and missing fields", () => {
    for (const json of [null, 1, "x", [], {}, [clearing()]]) same(json)
    for (const key of Object.keys(clearing())) same(clearing({ [key]: undefined }))
  })
})
