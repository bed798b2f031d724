import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const page = readFileSync(fileURLToPath(new URL("../../../docs/money.md", import.meta.url)), "utf8")

/** A row of a table by the names of its columns; `–` and an empty cell are "". */
export type Row = Readonly<Record<string, string>>

/** The tables under a heading of docs/money.md, in order. */
export const tables = (heading: string): ReadonlyArray<ReadonlyArray<Row>> => {
  const section = page.split(/^#+ /m).find((part) => part.startsWith(`${heading}\n`))
  if (section === undefined) throw new Error(`docs/money.md has no heading ${heading}`)
  const found = [...section.matchAll(/(?:^\|.*\|\n)+/gm)].map(([text]) => readTable(text))
  if (found.length === 0 || found.some((rows) => rows.length === 0)) throw new Error(`${heading} has an empty table`)
  return found
}

const readTable = (text: string): ReadonlyArray<Row> => {
  const [head = [], , ...rows] = text.trim().split("\n").map((line) =>
    line.split("|").slice(1, -1).map((cell) => cell.trim()))
  return rows.map((cells) =>
    Object.fromEntries(head.map((name, index) => [name, cells[index] === "–" ? "" : cells[index] ?? ""])))
}

/** The program of the examples, as it is on the wire. */
export const exampleProgram = (): Record<string, unknown> => {
  const json = /```json\n([^]*?)```/.exec(page)?.[1]
  if (json === undefined) throw new Error("docs/money.md shows no program")
  return JSON.parse(json)
}
