import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { PgTypes } from "@effect/sql-pg"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Result } from "effect"
import * as Owners from "./support/Owners.ts"

/**
 * How @effect/sql-pg 4.0.5 sends and receives each column type in use; README.md of this package has the rules.
 *
 * A row of this table has the type, the value that is sent, and the value that is received.
 */
const largest = 10n ** 78n - 1n
const int8Limits = [-(2n ** 63n), -1n, 0n, 2n ** 63n - 1n]
const texts = ["", "plain", "émoji 🎁👩‍👩‍👧", "quote ' \" \\ {},", "NULL", " spaces ", "two\nlines"]
const instants = [
  "0001-01-01T00:00:00.000Z",
  "1969-12-31T23:59:59.999Z",
  "1970-01-01T00:00:00.001Z",
  "1999-12-31T23:59:59.999Z",
  "2026-11-21T04:05:06.789Z",
  "9999-12-31T23:59:59.999Z"
]
  .map((text) => new Date(text))
const uuid = "00112233-4455-6677-8899-aabbccddeeff"

const scalars: ReadonlyArray<{ readonly type: string; readonly sent: unknown; readonly received: unknown }> = [
  ...texts.map((text) => ({ type: "text", sent: text, received: text })),
  { type: "int4", sent: 2_147_483_647, received: 2_147_483_647 },
  { type: "int4", sent: -2_147_483_648, received: -2_147_483_648 },
  ...int8Limits.map((value) => ({ type: "int8", sent: value, received: value })),
  { type: "int8", sent: 7, received: 7n },
  ...[largest, -largest, 0n, 1n, 10_000n, 100_000_000n].map((value) =>
    ({ type: "numeric(78,0)", sent: String(value), received: String(value) })),
  { type: "numeric", sent: "0.000000000000000001", received: "0.000000000000000001" },
  { type: "numeric", sent: "1.50", received: "1.50" },
  { type: "boolean", sent: true, received: true },
  { type: "boolean", sent: false, received: false },
  { type: "bytea", sent: Uint8Array.of(0, 1, 127, 128, 255), received: Uint8Array.of(0, 1, 127, 128, 255) },
  { type: "bytea", sent: new Uint8Array(0), received: new Uint8Array(0) },
  { type: "jsonb", sent: PgTypes.jsonb({ a: [1, null, "🎁"], b: {} }), received: { a: [1, null, "🎁"], b: {} } },
  { type: "jsonb", sent: PgTypes.jsonb("text"), received: "text" },
  { type: "jsonb", sent: JSON.stringify({ a: 1 }), received: { a: 1 } },
  ...instants.map((instant) => ({ type: "timestamptz", sent: instant, received: instant })),
  { type: "uuid", sent: uuid, received: uuid },
  { type: "text[]", sent: texts, received: texts },
  { type: "text[]", sent: [], received: [] },
  { type: "text[]", sent: ["a", null], received: ["a", null] },
  { type: "int8[]", sent: int8Limits, received: int8Limits },
  { type: "numeric[]", sent: [largest, 0n, -largest].map(String), received: [largest, 0n, -largest].map(String) }
]

describe("a value of each column type is received as it was sent", () => {
  for (const { type, sent, received } of scalars) {
    it.live(`${type}: ${describeValue(sent)}`, () =>
      Owners.query(TestDatabase.serverUrl(), (sql) =>
        Effect.gen(function*() {
          const rows = yield* sql`SELECT ${sent}::${sql.literal(type)} AS value`
          expect(rows[0]?.["value"]).toEqual(received)
          const again = yield* sql`SELECT ${sent}::${sql.literal(type)} AS value`
          expect(again[0]?.["value"]).toEqual(received)
        })))
  }

  for (const type of new Set(scalars.map((scalar) => scalar.type))) {
    it.live(`${type}: null`, () =>
      Owners.query(TestDatabase.serverUrl(), (sql) =>
        Effect.map(sql`SELECT ${null}::${sql.literal(type)} AS value`, (rows) =>
          expect(rows).toEqual([{ value: null }]))))
  }
})

const bulk: ReadonlyArray<{
  readonly type: string; readonly sent: unknown; readonly received: ReadonlyArray<unknown>
}> = [
  { type: "text", sent: texts, received: texts },
  { type: "text", sent: [null, null], received: [null, null] },
  { type: "int4", sent: [1, 2], received: [1, 2] },
  { type: "int8", sent: int8Limits, received: int8Limits },
  { type: "numeric", sent: [String(largest), "0", null], received: [String(largest), "0", null] },
  { type: "boolean", sent: [true, false, null], received: [true, false, null] },
  {
    type: "bytea",
    sent: [Uint8Array.of(1, 255), new Uint8Array(0)],
    received: [Uint8Array.of(1, 255), new Uint8Array(0)]
  },
  { type: "jsonb", sent: [JSON.stringify({ a: 1 }), JSON.stringify(["🎁"])], received: [{ a: 1 }, ["🎁"]] },
  { type: "timestamptz", sent: instants, received: instants },
  { type: "uuid", sent: [uuid, null], received: [uuid, null] },
  { type: "text", sent: [], received: [] }
]

describe("a column of each type can be sent as one array for unnest", () => {
  for (const { type, sent, received } of bulk) {
    it.live(`${type}[]: ${describeValue(sent)}`, () =>
      Owners.query(TestDatabase.serverUrl(), (sql) =>
        Effect.gen(function*() {
          const parameter = arrayParameter(sent)
          const rows = yield* sql`SELECT value FROM unnest(${parameter}::${sql.literal(type)}[])
            WITH ORDINALITY AS input(value, position) ORDER BY position`
          expect(rows.map((row) => row["value"])).toEqual(received)
        })))
  }
})

/** The driver cannot infer a type for an array that has only nulls: it needs an explicit one. */
const arrayParameter = (values: unknown): unknown =>
  Array.isArray(values) && values.length > 0 && values.every((value) => value === null)
    ? Result.getOrThrow(PgTypes.array(values, PgTypes.OID.text))
    : values

function describeValue(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => typeof inner === "bigint" ? `${inner}n` : inner).slice(0, 60)
}
