/** Verification of the journal by the integrator: that nothing was changed since a seal was kept. */
import type { JournalSeal } from "@card-rewards/domain/JournalSeal"
import { Effect, Result, Stream } from "effect"
import { Digest } from "effect/crypto"
import { Hex } from "effect/encoding"
import type { ExportedEntry } from "./ExportedEntry.ts"
import { type Cursor, makeCursor, take } from "./VerifyJournal/Cursor.ts"
import { type Entries, KeptUnreadable, makeEntries } from "./VerifyJournal/Entries.ts"
import {
  beginning,
  chainFault,
  type ExportedSeal,
  type KeptSeal,
  type KeptSealFields,
  placeOf,
  readKeptSeal,
  readSeal,
  type SealEnd
} from "./VerifyJournal/ReadSeal.ts"
import type { Fault, JournalFault, JournalVerdict } from "./VerifyJournal/Verdict.ts"

export { KeptUnreadable } from "./VerifyJournal/Entries.ts"
export type { ExportedSeal, KeptSeal } from "./VerifyJournal/ReadSeal.ts"
export { describeVerdict } from "./VerifyJournal/Verdict.ts"
export type { Consistent, JournalFault, JournalVerdict, Unchanged } from "./VerifyJournal/Verdict.ts"

/** An export of the journal, and what the integrator has kept of earlier ones. Each is read once, as a stream. */
export interface JournalExport<E = never, R = never> {
  /** All entries from the first one, in the order of the export. */
  readonly entries: Stream.Stream<ExportedEntry, E, R>
  /** All seals from the first one, read before the entries: the last seal may cover no entry that is not there. */
  readonly seals: Stream.Stream<ExportedSeal, E, R>
  /** Seals that were kept, oldest first: whole ones, or a hash and the number of the seal or of its last entry. */
  readonly kept?: Stream.Stream<KeptSeal, E, R>
  /** The entries of an older export, all from the first one. With them a changed entry is named exactly. */
  readonly keptEntries?: Stream.Stream<ExportedEntry, E, R>
}

/**
 * Recomputes the hash chain over the entries (docs/money.md, "Seals"), and compares it with the present seals and with
 * those that were kept. A kept seal proves every entry up to its last one; entries behind the last kept seal are only
 * consistent. Returns `Unchanged`, or `Consistent` where no seal was kept, or the first fault.
 *
 * Needs no network, and memory for one seal's entries, at most 1,000. Reads the first kept seal before all else. Fails
 * with `KeptUnreadable` where the kept seals cannot be read or are not in order, or the older export is not whole.
 */
export const verifyJournal = <E, R>(
  { entries, kept = Stream.empty, keptEntries = Stream.empty, seals }: JournalExport<E, R>
): Effect.Effect<JournalVerdict, E | KeptUnreadable, R> =>
  Effect.gen(function*() {
    const read = makeEntries(yield* makeCursor(entries), yield* makeCursor(keptEntries))
    return yield* verify(read, yield* makeCursor(seals), yield* makeCursor(kept))
  }).pipe(Effect.scoped, Effect.provide(Digest.layerWebCrypto), Effect.withSpan("verifyJournal"))

const verify = Effect.fnUntraced(function*<E>(
  entries: Entries<E>,
  seals: Cursor<ExportedSeal, E>,
  kept: Cursor<KeptSeal, E>
): Effect.fn.Return<JournalVerdict, E | KeptUnreadable, Digest.Digest> {
  yield* peekKept(kept, beginning)
  let provenTo = 0n
  let before: SealEnd = beginning
  let lastSeal: JournalSeal | undefined
  const differing = (): Fault | undefined => {
    const difference = entries.difference()
    return difference && { _tag: "EntryDiffers", ...difference }
  }
  // an entry that differs from the older export is the first fault: seals are verified when all their entries are read
  const found = (fault: Fault): JournalFault => ({ ...(differing() ?? fault), provenTo })
  for (;;) {
    const exported = yield* take(seals)
    if (exported === undefined) break
    const seal = readSeal(exported)
    if (seal === undefined) return found({ _tag: "SealMalformed", seal: before.seal + 1n })
    const reason = chainFault(before, seal)
    if (reason !== undefined) return found({ _tag: "SealChainBroken", seal: before.seal + 1n, reason })
    const texts = yield* entries.readTo(seal.toEntry)
    if ("_tag" in texts) return found(texts)
    const hash = yield* hashOf(before.hash, texts)
    const witness = yield* compareKept(kept, before, seal, hash)
    if (witness.holds) {
      provenTo = seal.toEntry
      const difference = entries.difference()
      if (difference !== undefined) return { _tag: "KeptEntryDiffers", ...difference, provenTo }
    }
    const { fromEntry, seal: number, toEntry } = seal
    if (hash !== seal.hash) {
      return found({ _tag: witness.holds ? "SealRewritten" : "SealDiffers", seal: number, fromEntry, toEntry })
    }
    if (witness.missing !== undefined) return found(missingSeal(witness.missing))
    if (witness.differs) return found({ _tag: "KeptSealDiffers", seal: number, fromEntry: provenTo + 1n, toEntry })
    before = seal
    lastSeal = seal
  }
  const fault = (yield* entries.readRest) ?? cutOff(yield* peekKept(kept, before), entries.last()) ?? differing()
  if (fault !== undefined) return found(fault)
  const agreement = { comparedTo: entries.comparedTo(), lastSeal, lastEntry: entries.last() }
  return provenTo > 0n
    ? { _tag: "Unchanged", provenTo, ...agreement }
    : { _tag: "Consistent", provenTo: 0n, ...agreement }
})

const encoder = new TextEncoder()

/** The hash of a seal: SHA-256 of the hash before it and of the canonical forms of its entries. */
const hashOf = Effect.fnUntraced(function*(previousHash: string, canonical: ReadonlyArray<string>) {
  const digest = yield* Digest.Digest
  const previous = Result.getOrThrow(Hex.decode(previousHash))
  const text = encoder.encode(canonical.join(""))
  const bytes = new Uint8Array(previous.length + text.length)
  bytes.set(previous)
  bytes.set(text, previous.length)
  return yield* digest.digestHex(Digest.sha256, bytes)
})

/** What the kept seals say about a present one. */
interface Witness {
  /** A kept seal proves the entries up to the seal's last one. */
  readonly holds: boolean
  /** A kept seal has the same end, and another hash. */
  readonly differs: boolean
  /** A kept seal that ends at no end of a present one. */
  readonly missing: KeptSealFields | undefined
}

/** Compares the kept seals that end within the entries of a seal. `hash` follows from the entries. */
const compareKept = Effect.fnUntraced(function*<E>(
  kept: Cursor<KeptSeal, E>,
  before: SealEnd,
  seal: JournalSeal,
  hash: string
): Effect.fn.Return<Witness, E | KeptUnreadable> {
  let holds = false
  for (;;) {
    const next = yield* peekKept(kept, before)
    if (next === undefined || placeOf(next, seal) > 0) return { holds, differs: false, missing: undefined }
    kept.advance()
    const isMissing = placeOf(next, seal) < 0 || (next.toEntry ?? seal.toEntry) !== seal.toEntry
    if (isMissing) return { holds, differs: false, missing: next }
    if (next.hash !== hash) return { holds, differs: true, missing: undefined }
    holds = true
  }
})

/** The next kept seal, which ends behind the seals before. */
const peekKept = Effect.fnUntraced(function*<E>(kept: Cursor<KeptSeal, E>, before: SealEnd) {
  const exported = yield* kept.peek
  if (exported === undefined) return undefined
  const next = readKeptSeal(exported)
  if ("reason" in next) return yield* new KeptUnreadable({ message: next.reason })
  return placeOf(next, before) > 0
    ? next
    : yield* new KeptUnreadable({ message: "the kept seals are not in order, oldest first" })
})

const missingSeal = ({ seal, toEntry }: KeptSealFields): Fault => ({ _tag: "KeptSealMissing", seal, toEntry })

/** A kept seal behind the last present one: its entries were removed, or the seal. */
const cutOff = (kept: KeptSealFields | undefined, lastEntry: bigint): Fault | undefined =>
  kept?.toEntry !== undefined && kept.toEntry > lastEntry
    ? { _tag: "EntryMissing", entry: lastEntry + 1n }
    : kept && missingSeal(kept)
