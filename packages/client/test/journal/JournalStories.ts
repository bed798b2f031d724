import { Account, JournalEntry } from "@card-rewards/domain/Journal"
import { assets } from "@card-rewards/domain/Money"
import { Schema } from "effect"
import { type Entry, type Seal, sealed } from "./SecondSeals.ts"

/** What ids are made of here: everything that an encoder could get wrong. */
const piece = Schema.Literals([
  "a",
  "\"",
  "\\",
  "/",
  "\",\"to\":\"",
  "\\u0041",
  "\b\t\n\f\r",
  "\u0001\u000b\u001f",
  "\u007f\u0085",
  "é",
  "\u2028\ufeff\uffff",
  "😀",
  "\u{10ffff}"
])

/** A text of hostile characters. */
const hostileText = Schema.Array(piece).check(Schema.isMinLength(1), Schema.isMaxLength(4))

const digits = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 999_999_999 }))

const row = Schema.Struct({
  asset: Schema.Literals(assets),
  from: Account,
  to: Account,
  amount: digits,
  userId: Schema.optionalKey(hostileText),
  rewardId: Schema.optionalKey(hostileText),
  reference: Schema.optionalKey(Schema.Literals(["r\"\\/é", "\u2028\ufeff😀"]))
})

const sizes = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 5 }))).check(Schema.isMinLength(3))

const choice = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))

/** Entries as the API prints them, the last of which may not be sealed, and one of them that is picked. */
export interface JournalStory {
  readonly entries: ReadonlyArray<Entry>
  readonly seals: ReadonlyArray<Seal>
  readonly sizes: ReadonlyArray<number>
  /** The index of an entry that is sealed. */
  readonly picked: number
  /** The seal of that entry. */
  readonly seal: Seal
}

/** What {@link storyOf} makes a journal of. */
export const storyParts = Schema.Struct({
  rows: Schema.Array(row).check(Schema.isMinLength(8), Schema.isMaxLength(24)),
  sizes,
  choice
})

/** A journal of random entries. */
export const storyOf = ({ choice, rows, sizes: wanted }: typeof storyParts.Type): JournalStory => {
  const entries = rows.map(({ reference, rewardId, userId, ...row }, index): Entry => ({
    entry: `${index + 1}`,
    at: new Date(1_790_000_000_000 + index).toISOString(),
    ...row,
    amount: `${row.amount}`,
    ...(userId && { userId: userId.join("") }),
    ...(rewardId && { rewardId: rewardId.join("") }),
    ...(reference && { reference })
  }))
  const sizes: Array<number> = []
  let total = 0
  for (const size of wanted) if (total + size <= entries.length) total += sizes.push(size) && size
  const seals = sealed(entries, sizes)
  const picked = choice % total
  const seal = seals.find(({ toEntry }) => Number(toEntry) > picked) ?? missing()
  return { entries, seals, sizes, picked, seal }
}

const missing = (): never => {
  throw new Error("the story has no such seal")
}

/** The entries with their numbers in order. */
export const renumbered = (entries: ReadonlyArray<Entry>): ReadonlyArray<Entry> =>
  entries.map((entry, index) => ({ ...entry, entry: `${index + 1}` }))

/** The entries as the client returns them. */
export const listed = Schema.decodeUnknownSync(Schema.Array(JournalEntry))
