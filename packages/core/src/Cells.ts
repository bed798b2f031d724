import { Redacted } from "effect"
import type { DatabaseConfig } from "./Database/Pool.ts"
import { percentDecoded } from "./PercentEncoding.ts"
import { allSlots, slotCount } from "./Slots.ts"

/** A cell: one PostgreSQL schema with all tables, and the integrators of some slots. */
export interface Cell {
  readonly name: string
  readonly url: Redacted.Redacted
  /** The schema of its tables; the login's first one where absent. */
  readonly schema?: string
  /** The slots that it has when `admin migrate` creates its tables. Later its database says which it owns. */
  readonly slots: ReadonlySet<number>
}

/** One cell at least. */
export type Cells = readonly [Cell, ...ReadonlyArray<Cell>]

/** How to connect to a cell's database. */
export const databaseOf = (
  { schema, url }: Cell,
  options: Pick<DatabaseConfig, "poolSize" | "applicationName">
): DatabaseConfig => ({ ...options, url, ...(schema === undefined ? {} : { schema }) })

/** The name of the only cell. */
const onlyName = "main"

/** The cell of an address alone, which has all slots. */
export const onlyCell = (url: Redacted.Redacted): Cell => ({ name: onlyName, url, slots: allSlots })

/**
 * Parses `name=postgres://…?schema=cell_1&slots=0-127,…`: the cells with the slots that each is created with. Several
 * ranges are separated by `+`. Returns what is wrong otherwise, without addresses, which hold passwords.
 */
export const parseCells = (text: string): Cells | string => {
  const cells: Array<Cell> = []
  const known = new Set<string>()
  for (const part of text.split(",")) {
    const [, name = "", address = ""] = /^\s*([a-z0-9][a-z0-9_-]{0,31})=(postgres(?:ql)?:\/\/\S+)\s*$/.exec(part) ?? []
    if (!URL.canParse(address)) return "entries name=postgres://…?schema=cell_1&slots=0-127, separated by commas"
    if (cells.some((cell) => cell.name === name)) return `cells of different names: there are two of ${name}`
    const url = new URL(address)
    const fault = addressFault(url)
    if (fault !== undefined) return `${fault} for ${name}`
    const schema = url.searchParams.get("schema")
    const where = `${url.host}${url.pathname} ${schema}`
    if (known.has(where)) return `cells of different databases or schemas: ${name} has that of another one`
    known.add(where)
    if (schema !== null && !/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) return `a schema of lowercase letters for ${name}`
    const slots = parseSlots(url.searchParams.get("slots") ?? "")
    if (slots === undefined) return `slots from 0 to 255 such as 0-63+128-191 for ${name}`
    url.searchParams.delete("schema")
    url.searchParams.delete("slots")
    cells.push({ name, url: Redacted.make(url.href), slots, ...(schema === null ? {} : { schema }) })
  }
  for (const slot of allSlots) {
    const owners = cells.filter(({ slots }) => slots.has(slot)).length
    if (owners !== 1) return `each slot in one cell: slot ${slot} is in ${owners === 0 ? "none" : owners}`
  }
  const [first, ...others] = cells
  return first === undefined ? "a cell" : [first, ...others]
}

/** The values of `sslmode` that the driver knows. */
const sslModes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]

/** What an address lacks with which no connection can be made; without the address, which holds a password. */
export const addressFault = ({ hostname, password, pathname, searchParams, username }: URL): string | undefined => {
  if ([hostname, username, password, pathname].some((part) => percentDecoded(part) === undefined)) {
    return "a valid percent-encoding (%25 for %)"
  }
  if (searchParams.getAll("sslmode").every((mode) => sslModes.includes(mode))) return undefined
  return `an sslmode of ${sslModes.join(", ")}`
}

/** The ranges of slots as {@link parseCells} takes them. */
export const printSlots = (slots: Iterable<number>): string => {
  const ranges: Array<readonly [first: number, last: number]> = []
  for (const slot of [...slots].toSorted((one, other) => one - other)) {
    const [first, last] = ranges.at(-1) ?? []
    if (first !== undefined && last === slot - 1) ranges.splice(-1, 1, [first, slot])
    else ranges.push([slot, slot])
  }
  return ranges.map(([first, last]) => first === last ? `${first}` : `${first}-${last}`).join("+")
}

/** Parses ranges of slots such as `0-63+128-191`; undefined where they are none. */
export const parseSlots = (text: string): ReadonlySet<number> | undefined => {
  const slots = new Set<number>()
  // a plus sign in the query of an address is a space
  for (const range of text.split(/[ +]/).filter((one) => one !== "")) {
    const [, from, to = from] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(range) ?? []
    const [first, last] = [Number(from), Number(to)]
    if (!(first <= last && last < slotCount)) return undefined
    for (let slot = first; slot <= last; slot++) slots.add(slot)
  }
  return slots
}
