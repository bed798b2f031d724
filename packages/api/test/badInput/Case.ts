import type { Sent } from "@card-rewards/testing/HttpExchange"

/** A request that is refused with 400, the part at fault, and the whole message. */
export interface Case extends Sent {
  readonly title: string
  readonly method: string
  readonly path: string
  readonly part: "body" | "query" | "path"
  readonly message: string
}

/** What a body is sent with. */
export type Row = readonly [title: string, json: unknown, message: string]

/** Bodies for one operation. */
export const bodies = (method: string, path: string, rows: ReadonlyArray<Row>): ReadonlyArray<Case> =>
  rows.map(
    ([title, json, message]) => ({ title: `${method} ${path}: ${title}`, method, path, json, part: "body", message })
  )

const emoji = "😀"

/** What is wrong with a text, wherever it stands; `body` puts it there. */
export const texts = (
  at: string,
  body: (value: unknown) => unknown,
  options: { readonly maximum: number; readonly printable?: true }
): ReadonlyArray<Row> => {
  const { maximum, printable } = options
  const length = `${at}: expected a string with between 1 and ${maximum} code points`
  const well = `${at}: expected well-formed Unicode text without ${printable ? "control characters" : "NUL"}`
  const rows: ReadonlyArray<Row> = [
    ["a number", 5, length],
    ["true", true, length],
    ["null", null, length],
    ["an array", ["a"], length],
    ["an object", { a: "a" }, length],
    ["nothing", "", length],
    [`${maximum + 1} characters`, "x".repeat(maximum + 1), length],
    [`${maximum + 1} emoji`, emoji.repeat(maximum + 1), length],
    ["NUL", "a\0b", well],
    ["an unpaired high surrogate", "a\ud83d", well],
    ["an unpaired low surrogate", "\ude00a", well],
    ...(
      printable ? [["a control character", "a\u0007", well], ["a C1 control character", "\u0085a", well]] as const : []
    )
  ]
  return rows.map(([title, value, message]) => [`${title} as ${at}`, body(value), message])
}

/** What is no amount of at most so many digits. */
export const amounts = (at: string, body: (value: unknown) => unknown, digits: number): ReadonlyArray<Row> => {
  const expected = `1 to ${digits} decimal digits`
  const refused: ReadonlyArray<readonly [string, unknown]> = [
    ["a negative amount", "-1"],
    ["a sign", "+1"],
    ["a fraction", "1.5"],
    ["an exponent", "1e3"],
    ["a hexadecimal amount", "0x1f"],
    ["a separator", "1_000"],
    ["a space before", " 1"],
    ["a newline after", "1\n"],
    ["Arabic digits", "١٢"],
    ["full-width digits", "１２"],
    ["nothing", ""],
    [`${digits + 1} digits`, "1".repeat(digits + 1)],
    [`${digits + 1} digits that are mostly zeros`, "1".padStart(digits + 1, "0")]
  ]
  return [
    ...refused.map(([title, value]): Row => [`${title} as ${at}`, body(value), `${at}: expected ${expected}`]),
    ...[1, null, true, ["1"]].map((value): Row => [
      `${JSON.stringify(value)} as ${at}`,
      body(value),
      `${at}: expected a string: ${expected}`
    ])
  ]
}

/** What is no instant in UTC. */
export const timestamps = (at: string, body: (value: unknown) => unknown): ReadonlyArray<Row> => {
  const expected = "a UTC timestamp such as 2026-12-01T00:00:00.000Z"
  const refused = [
    "",
    "now",
    "2026-01-01",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00+00:00",
    "2026-01-01T00:00:00.000+01:00",
    "2026-02-29T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-10T00:00:00Z",
    "2026-01-00T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:60:00Z",
    "2026-01-01T00:00:60Z",
    "2026-01-01T00:00:00.0000Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01t00:00:00z",
    "2026-01-01 00:00:00Z",
    " 2026-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "+012026-01-01T00:00:00Z",
    "-000001-01-01T00:00:00Z",
    "2026-W01-1T00:00:00Z"
  ]
  return [
    ...refused.map((value): Row => [`"${value}" as ${at}`, body(value), `${at}: expected ${expected}`]),
    ...[0, 1_793_534_400_000, null].map(
      (value): Row => [`${value} as ${at}`, body(value), `${at}: expected a string: ${expected}`]
    )
  ]
}

/** What is no object where one is due. */
export const objects = (at: string, body: (value: unknown) => unknown): ReadonlyArray<Row> =>
  ["a", 1, false, null, [], [{}]].map(
    (value) => [`${JSON.stringify(value)} as ${at}`, body(value), `${at}: expected an object`]
  )

/** Keys that no request has; those that every object inherits are no exception. */
export const unknownKeys = (at: string, body: (more: object) => unknown): ReadonlyArray<Row> =>
  ["extra", "__proto__", "constructor", "toString", "hasOwnProperty", ""].map((key) => [
    `the key ${JSON.stringify(key)} in ${at}`,
    body(JSON.parse(`{${JSON.stringify(key)}: {"a": 1}}`)),
    `${at}.${key}: is not known`
  ])

/** An object with the other's own properties, `__proto__` as one of them. */
export const also = (base: object, more: object): object =>
  Object.defineProperties({ ...base }, Object.getOwnPropertyDescriptors(more))
