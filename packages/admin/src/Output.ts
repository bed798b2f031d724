import { Console, Effect } from "effect"
import { Flag } from "effect/cli"

/** Prints the answer as one JSON value instead of lines for people. */
export const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print one JSON value"),
  Flag.withDefault(false)
)

/** Something to print: a record, or a table of records with the same keys. */
type Printable = object | ReadonlyArray<object>

/** Prints an answer in the form that was asked for. */
export const print = Effect.fnUntraced(function*(answer: Printable, asJson: boolean) {
  if (asJson) return yield* Console.log(JSON.stringify(answer, digits, 2))
  yield* Console.log(Array.isArray(answer) ? table(answer) : lines(answer))
})

const digits = (_key: string, value: unknown): unknown => typeof value === "bigint" ? value.toString() : value

const text = (value: unknown): string =>
  value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value, digits) : `${value}`

const lines = (record: object): string => {
  const width = Math.max(...Object.keys(record).map((key) => key.length))
  return Object.entries(record).map(([key, value]) => `${key.padEnd(width)}  ${text(value)}`).join("\n")
}

const table = (records: ReadonlyArray<object>): string => {
  const [first] = records
  if (first === undefined) return "(none)"
  const keys = [...new Set(records.flatMap((record) => Object.keys(record)))]
  const rows = records.map((record) => {
    const values = new Map(Object.entries(record))
    return keys.map((key) => text(values.get(key)))
  })
  const widths = keys.map((key, index) => Math.max(key.length, ...rows.map((row) => row[index]?.length ?? 0)))
  return [keys, ...rows].map((row) => row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join("  ").trimEnd()).join("\n")
}
