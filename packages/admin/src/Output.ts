import { Console, Effect } from "effect"
import { Flag, TerminalCapabilities } from "effect/cli"

/** Prints the result as one JSON value instead of readable lines. */
export const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print one JSON value"),
  Flag.withDefault(false)
)

/** A record, or a table of records with the same keys. */
type Printable = object | ReadonlyArray<object>

/** Prints a result as JSON or as readable lines. Names are bold on a terminal with colours. */
export const print = Effect.fnUntraced(function*(result: Printable, asJson: boolean) {
  if (asJson) return yield* Console.log(escaped(JSON.stringify(result, digits, 2), unprintableInJson))
  yield* printLines(result)
})

/** Prints readable lines; `title` is above a table. */
export const printLines = Effect.fnUntraced(function*(result: Printable, title?: string) {
  const { canColor } = yield* TerminalCapabilities.TerminalCapabilities
  const name: Style = canColor ? (text) => `\u001b[1m${text}\u001b[22m` : (text) => text
  if (title !== undefined) yield* Console.log(`\n${name(title)}`)
  yield* Console.log(Array.isArray(result) ? table(result, name) : lines(result, name))
})

type Style = (text: string) => string

const digits = (_key: string, value: unknown): unknown => typeof value === "bigint" ? value.toString() : value

const text = (value: unknown): string =>
  value === undefined || value === null
    ? ""
    : escaped(typeof value === "object" ? JSON.stringify(value, digits) : `${value}`, unprintable)

/** Characters that a terminal would interpret; ids may contain them. In JSON there are only those that it leaves. */
const unprintable = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu
const unprintableInJson = /[\u007f-\u009f\p{Bidi_Control}\u2028\u2029]/gu

const escaped = (text: string, characters: RegExp): string =>
  text.replace(characters, (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`)

const lines = (record: object, name: Style): string => {
  const width = Math.max(...Object.keys(record).map((key) => key.length))
  return Object.entries(record).map(([key, value]) => `${name(key.padEnd(width))}  ${text(value)}`.trimEnd()).join("\n")
}

const table = (records: ReadonlyArray<object>, name: Style): string => {
  if (records.length === 0) return "(none)"
  const keys = [...new Set(records.flatMap((record) => Object.keys(record)))]
  const rows = records.map((record) => {
    const values = new Map(Object.entries(record))
    return keys.map((key) => text(values.get(key)))
  })
  const widths = keys.map((key, index) =>
    rows.reduce((width, row) => Math.max(width, row[index]?.length ?? 0), key.length))
  const line = (cells: ReadonlyArray<string>) =>
    cells.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join("  ").trimEnd()
  return [name(line(keys)), ...rows.map(line)].join("\n")
}
