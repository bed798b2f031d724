/** Entries of the journal as they come from an export, from a file or from `journal.list`. */
import { Account, type JournalEntry } from "@card-rewards/domain/Journal"
import { canonicalForm } from "@card-rewards/domain/JournalSeal"
import { type Asset, assets } from "@card-rewards/domain/Money"
import { parseTimestamp, printTimestamp } from "@card-rewards/domain/Time"

/** An entry as the API prints it. */
export type PrintedEntry = typeof JournalEntry.Encoded

/** An entry as `journal.list` of the client returns it. */
export interface ListedEntry {
  readonly entry: bigint
  readonly at: number
  readonly asset: Asset
  readonly from: Account
  readonly to: Account
  readonly amount: bigint
  readonly userId?: string
  readonly rewardId?: string
  readonly reference?: string
}

/** An entry of the journal: a line of an export, the JSON of such a line, or as `journal.list` returns it. */
export type ExportedEntry = string | PrintedEntry | ListedEntry

/** An entry that has the form of the API's entries. */
export interface ReadEntry {
  readonly entry: bigint
  readonly printed: PrintedEntry
  /** The text whose bytes are sealed. */
  readonly canonical: string
}

/** Why something is no entry of the journal; the text repeats nothing of it. */
export interface Unreadable {
  readonly reason: string
}

/** The longest line of an export, in UTF-16 code units: several times the longest entry. */
export const maxLineLength = 65_536

/**
 * Reads an entry. What the service cannot print is a reason to refuse it: a member that is there twice, a value of
 * another type or form, such as an amount with leading zeros. Members that are not in the canonical form are ignored:
 * a later version of the service may have them, and they are not sealed.
 */
export const readEntry = (exported: unknown): ReadEntry | Unreadable => {
  if (typeof exported !== "string") return ofObject(exported)
  if (exported.length > maxLineLength) return { reason: `the line has more than ${maxLineLength} characters` }
  const json = parsed(exported)
  const read = ofObject(json)
  // a text as long as the shortest one of its value has each member once
  if ("reason" in read || exported.length === read.canonical.length - 1) return read
  return hasRepeatedMember(exported) ? { reason: "a member is there twice" } : read
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const ofObject = (value: unknown): ReadEntry | Unreadable => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { reason: "it is no JSON object" }
  const printed: Record<string, string> = {}
  const members: Readonly<Record<string, unknown>> = { ...value }
  for (const [name, isValid] of forms) {
    const member = members[name]
    if (member === undefined) continue
    const text = print(name, member)
    if (text === undefined || !isValid(text)) return { reason: `${name} is not as the service prints it` }
    printed[name] = text
  }
  if (!isComplete(printed)) return { reason: "a member is missing" }
  return { entry: BigInt(printed.entry), printed, canonical: canonicalForm(printed) }
}

/** The text of a member that the client has decoded. */
const print = (name: string, value: unknown): string | undefined => {
  if (typeof value === "string") return value
  if (typeof value === "bigint" && (name === "entry" || name === "amount")) return value.toString()
  return name === "at" && Number.isInteger(value) && Math.abs(Number(value)) < 8.64e15
    ? printTimestamp(Number(value))
    : undefined
}

const accounts: ReadonlySet<string> = new Set(Account.literals)

const isAccount = (text: string): boolean => accounts.has(text)

const isText = (text: string): boolean => text !== "" && text.isWellFormed() && !text.includes("\0")

/** The members of the canonical form, and whether the text of each is as the service prints it. */
const forms: ReadonlyArray<readonly [name: string, isValid: (text: string) => boolean]> = Object.entries({
  entry: (text) => /^[1-9][0-9]{0,17}$/.test(text),
  at: (text) => text.length === 24 && parseTimestamp(text) !== undefined,
  asset: (text) => assets.some((asset) => asset === text),
  from: isAccount,
  to: isAccount,
  amount: (text) => /^[1-9][0-9]{0,77}$/.test(text),
  userId: isText,
  rewardId: isText,
  reference: isText
} satisfies Readonly<Record<keyof PrintedEntry, (text: string) => boolean>>)

const isComplete = (printed: Readonly<Record<string, string>>): printed is PrintedEntry & Record<string, string> =>
  ["entry", "at", "asset", "from", "to", "amount"].every((name) => printed[name] !== undefined)

/** Of the JSON of an object: whether one of its own members, not of what they hold, is there twice. */
const hasRepeatedMember = (text: string): boolean => {
  const names = new Set<string>()
  let depth = 0
  for (const [token, string, colon] of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\]]/g)) {
    if (string === undefined) depth += token === "{" || token === "[" ? 1 : -1
    else if (depth === 1 && colon !== undefined) {
      const name: string = JSON.parse(string)
      if (names.has(name)) return true
      names.add(name)
    }
  }
  return false
}
