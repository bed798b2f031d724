import { Effect, Schema } from "effect"
import { type ExportedEntry, readEntry, type ReadEntry } from "../ExportedEntry.ts"
import { type Cursor, take } from "./Cursor.ts"
import type { Fault } from "./Verdict.ts"

/** What was kept cannot be read: a line is no seal or no entry, seals are not in order, or entries are missing. */
export class KeptUnreadable extends Schema.TaggedError<KeptUnreadable>()("KeptUnreadable", {
  message: Schema.String
}) {}

/** An entry that is not the same in both exports. */
export interface Difference {
  readonly entry: bigint
  readonly kept: string
  readonly present: string
}

/** The entries of an export, which are read once, in order of their numbers from 1. */
export interface Entries<E> {
  /** Reads up to an entry. Returns the canonical forms of those that it has read, or why it cannot read on. */
  readonly readTo: (entry: bigint) => Effect.Effect<ReadonlyArray<string> | Fault, E | KeptUnreadable>
  /** Reads all other entries. Returns why it cannot read on. */
  readonly readRest: Effect.Effect<Fault | undefined, E | KeptUnreadable>
  /** The last entry that was read. */
  readonly last: () => bigint
  /** The last entry that was compared with the older export. */
  readonly comparedTo: () => bigint
  /** The first entry that differs from the older export. */
  readonly difference: () => Difference | undefined
}

/** The entries of an export, compared with those of an older one where it has them. */
export const makeEntries = <E>(
  present: Cursor<ExportedEntry, E>,
  kept: Cursor<ExportedEntry, E>
): Entries<E> => {
  let last = 0n
  let comparedTo = 0n
  let difference: Difference | undefined

  const compare = Effect.fnUntraced(function*({ canonical, entry }: ReadEntry) {
    const older = yield* peekKept(kept, entry)
    if (older === undefined) return
    kept.advance()
    comparedTo = entry
    if (older.canonical !== canonical) difference ??= { entry, kept: older.canonical, present: canonical }
  })

  /** Reads the next entry, which is there. */
  const readNext = Effect.fnUntraced(function*(exported: ExportedEntry) {
    const expected = last + 1n
    const read = readEntry(exported)
    if ("reason" in read) return { _tag: "EntryMalformed", entry: expected, reason: read.reason } satisfies Fault
    if (read.entry !== expected) return yield* misplaced(present, expected, read.entry)
    yield* compare(read)
    last = expected
    return read.canonical
  })

  return {
    readTo: Effect.fnUntraced(function*(entry) {
      const texts: Array<string> = []
      while (last < entry) {
        const exported = yield* take(present)
        if (exported === undefined) return { _tag: "EntryMissing", entry: last + 1n }
        const read = yield* readNext(exported)
        if (typeof read !== "string") return read
        texts.push(read)
      }
      return texts
    }),
    readRest: Effect.gen(function*() {
      for (;;) {
        const exported = yield* take(present)
        if (exported === undefined) break
        const read = yield* readNext(exported)
        if (typeof read !== "string") return read
      }
      const isLonger = (yield* peekKept(kept, last + 1n)) !== undefined
      return isLonger ? { _tag: "EntryMissing", entry: last + 1n } : undefined
    }),
    last: () => last,
    comparedTo: () => comparedTo,
    difference: () => difference
  }
}

/** The next entry of the older export, which is the expected one; undefined at its end. */
const peekKept = Effect.fnUntraced(function*<E>(kept: Cursor<ExportedEntry, E>, expected: bigint) {
  const exported = yield* kept.peek
  if (exported === undefined) return undefined
  const read = readEntry(exported)
  if ("reason" in read) {
    return yield* new KeptUnreadable({ message: `a line of the older export is no entry: ${read.reason}` })
  }
  if (read.entry === expected) return read
  const message = `the older export has entry ${read.entry} where entry ${expected} is due: it must be whole`
  return yield* new KeptUnreadable({ message })
})

/** Why another entry stands where one is expected: reads on, because the expected one may come later. */
const misplaced = Effect.fnUntraced(function*<E>(
  present: Cursor<ExportedEntry, E>,
  expected: bigint,
  found: bigint
): Effect.fn.Return<Fault, E> {
  if (found < expected) return { _tag: "EntryRepeated", entry: found }
  for (let before = found;;) {
    const exported = yield* take(present)
    if (exported === undefined) return { _tag: "EntryMissing", entry: expected }
    const read = readEntry(exported)
    if ("reason" in read) continue
    if (read.entry === expected) return { _tag: "EntryOutOfOrder", entry: expected, after: before }
    before = read.entry
  }
})
