import { Schema } from "effect"
import type { JournalEntry } from "./Journal.ts"
import { integerUpTo, LogNumber } from "./Pagination.ts"
import { Timestamp } from "./Time.ts"

/** The most entries of one seal. */
export const maxSealedEntries = 1_000

/** A SHA-256 as 64 lower case hexadecimal digits. */
export const Sha256 = Schema.String.check(
  Schema.isPattern(/^[0-9a-f]{64}$/u, { expected: "64 lower case hexadecimal digits" })
)

/** The previous hash of an integrator's first seal. */
export const noSealHash = "0".repeat(64)

/**
 * A link of the hash chain over an integrator's journal (decisions, section 9): `hash` is the SHA-256 of the 32 bytes
 * of `previousHash` and the {@link canonicalForm} of each entry from `fromEntry` to `toEntry`. `at` is the real time
 * at which the worker sealed them.
 */
export const JournalSeal = Schema.Struct({
  seal: LogNumber,
  fromEntry: LogNumber,
  toEntry: LogNumber,
  at: Timestamp,
  previousHash: Sha256,
  hash: Sha256
}).annotate({
  identifier: "JournalSeal",
  description: "`hash` is the SHA-256 of the 32 bytes of `previousHash`, which is the `hash` of the seal before or " +
    "zero, followed by the canonical form of the entries `fromEntry` to `toEntry`: each entry's JSON by RFC 8785, " +
    "and a line feed. Seals count from 1 and follow each other without gaps. Keep one: it proves later that no entry " +
    "up to `toEntry` was changed, removed, inserted or reordered."
})
export type JournalSeal = typeof JournalSeal.Type

/** A page of seals, oldest first. */
export const JournalSealPage = Schema.Struct({ seals: Schema.Array(JournalSeal), next: LogNumber }).annotate({
  identifier: "JournalSealPage",
  description: "Seals of the journal, oldest first. `next` is always present."
})

/** The most seals of a page. */
export const maxSealPage = 1_000

/** Query of the seals: those after a number. */
export const JournalSealQuery = {
  after: Schema.optionalKey(LogNumber),
  limit: Schema.optionalKey(integerUpTo(maxSealPage, /^([1-9][0-9]{0,2}|1000)$/u))
}

/** The members of an entry in order of their names. */
const members = ["amount", "asset", "at", "entry", "from", "reference", "rewardId", "to", "userId"] as const

/**
 * The bytes of an entry that a seal covers, as text to encode in UTF-8: the entry's JSON by RFC 8785 (members in order
 * of their names, absent ones left out, no white space), and a line feed. The entry is as the API prints it.
 */
export const canonicalForm = (entry: typeof JournalEntry.Encoded): string => {
  const sorted: Record<string, string> = {}
  for (const name of members) {
    const value = entry[name]
    if (value !== undefined) sorted[name] = value
  }
  // escapes the strings of an object as RFC 8785 does, which took its rules from ECMAScript
  return `${JSON.stringify(sorted)}\n`
}
