import * as Promised from "@card-rewards/client/promise"
import { KeptUnreadable } from "@card-rewards/client/VerifyJournal"
import { JournalSeal } from "@card-rewards/domain/JournalSeal"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { listed, renumbered, storyOf, storyParts } from "./journal/JournalStories.ts"
import { canonicalBytes, type Entry, type Seal, sealed } from "./journal/SecondSeals.ts"
import { expectVerdict, verify } from "./journal/Verdicts.ts"

const without = <A>(list: ReadonlyArray<A>, index: number) => list.toSpliced(index, 1)

/** The entry with another amount. */
const changed = (entry: Entry | undefined): Entry => ({ ...entry, amount: `${entry?.["amount"]}0` })

const canonical = (entry: Entry | undefined): string => canonicalBytes(entry ?? {}).toString()

const range = (seal: Seal) => ({
  seal: BigInt(seal.seal),
  fromEntry: BigInt(seal.fromEntry),
  toEntry: BigInt(seal.toEntry)
})

/** Entries without anything special. */
const deposits = Array.from({ length: 9 }, (_, index): Entry => (
  { entry: `${index + 1}`, at: "2026-11-02T09:30:00.000Z", asset: "USDC", from: "world", to: "free", amount: "1" }
))

const runs = { arbitrary: { runs: 60 } }

describe("a journal that was not changed", () => {
  it.effect.prop("is unchanged up to the last kept seal, and consistent without one", [storyParts], ([parts]) =>
    Effect.gen(function*() {
      const { entries, picked, seal, seals } = storyOf(parts)
      const last = seals.at(-1)
      const lastSeal = Schema.decodeUnknownSync(JournalSeal)(last)
      const expected = { _tag: "Unchanged", lastSeal, lastEntry: BigInt(entries.length) } as const
      const { hash, seal: number, toEntry } = seal
      const keptForms = [[seal], [JSON.stringify(seal)], [{ hash, toEntry }], [{ hash, seal: BigInt(number) }]]
      for (const kept of keptForms) {
        yield* expectVerdict({ entries, seals, kept }, { ...expected, provenTo: BigInt(toEntry) })
      }
      const lines = entries.map((entry) => JSON.stringify(entry))
      const sealLines = seals.map((seal) => JSON.stringify(seal))
      const consistent = { ...expected, _tag: "Consistent", provenTo: 0n } as const
      yield* expectVerdict({ entries: lines, seals: sealLines }, consistent)
      const decoded = Schema.decodeUnknownSync(Schema.Array(JournalSeal))(seals)
      yield* expectVerdict(
        { entries: listed(entries), seals: decoded, kept: [seal, seal, ...decoded.slice(Number(number))] },
        { ...expected, provenTo: lastSeal.toEntry }
      )
      const keptEntries = lines.slice(0, picked)
      const comparedTo = BigInt(picked)
      yield* expectVerdict({ entries, seals, keptEntries }, { ...consistent, comparedTo })
    }), runs)

  it.effect("is consistent without entries and seals, and without seals", () =>
    Effect.gen(function*() {
      const nothing = { _tag: "Consistent", provenTo: 0n, comparedTo: 0n, lastSeal: undefined } as const
      yield* expectVerdict({ entries: [], seals: [] }, { ...nothing, lastEntry: 0n })
      yield* expectVerdict({ entries: deposits, seals: [] }, { ...nothing, lastEntry: 9n })
    }))
})

describe("of a journal that was changed, the verdict names", () => {
  it.effect.prop("the changed entry by an older export, or else the seal over it", [storyParts], ([parts]) =>
    Effect.gen(function*() {
      const story = storyOf(parts)
      const { picked, seal, seals } = story
      const entries = story.entries.with(picked, changed(story.entries[picked]))
      const before = seals.filter(({ toEntry }) => Number(toEntry) <= picked)
      const provenTo = BigInt(before.at(-1)?.toEntry ?? 0)
      yield* expectVerdict({ entries, seals }, { _tag: "SealDiffers", ...range(seal), provenTo: 0n })
      yield* expectVerdict({ entries, seals, kept: seals }, { _tag: "SealDiffers", ...range(seal), provenTo })
      const [kept, present] = [canonical(story.entries[picked]), canonical(entries[picked])]
      const differs = { _tag: "EntryDiffers", entry: BigInt(picked + 1), kept, present } as const
      yield* expectVerdict({ entries, seals, keptEntries: story.entries }, { ...differs, provenTo: 0n })
      yield* expectVerdict({ entries, seals, kept: seals, keptEntries: story.entries }, { ...differs, provenTo })
      // a change of the older export alone is found where a seal proves the present one
      const older = { entries: story.entries, seals, keptEntries: entries }
      const swapped = { ...differs, kept: present, present: kept }
      yield* expectVerdict({ ...older, kept: before }, { ...swapped, provenTo })
      yield* expectVerdict({ ...older, kept: [seal] }, { ...swapped, _tag: "KeptEntryDiffers" })
    }), runs)

  it.effect.prop("the removed, the repeated, and the reordered entry", [storyParts], ([parts]) =>
    Effect.gen(function*() {
      const { entries, picked, seals } = storyOf(parts)
      const entry = BigInt(picked + 1)
      yield* expectVerdict({ entries: without(entries, picked), seals }, { _tag: "EntryMissing", entry })
      yield* expectVerdict({ entries: entries.slice(0, picked), seals }, { _tag: "EntryMissing", entry })
      const repeated = entries.toSpliced(picked + 1, 0, changed(entries[picked]))
      yield* expectVerdict({ entries: repeated, seals }, { _tag: "EntryRepeated", entry })
      if (picked + 1 === entries.length) return
      const moved = [...without(entries, picked), ...entries.slice(picked, picked + 1)]
      const after = BigInt(entries.length)
      yield* expectVerdict({ entries: moved, seals }, { _tag: "EntryOutOfOrder", entry, after })
    }), runs)

  it.effect.prop("the kept seals around what was rewritten with all present seals", [storyParts], ([parts]) =>
    Effect.gen(function*() {
      const story = storyOf(parts)
      const { picked, seal, sizes } = story
      const rewritten = [
        story.entries.with(picked, changed(story.entries[picked])),
        renumbered(story.entries.toSpliced(picked, 0, changed(story.entries[picked]))),
        renumbered(story.entries.toSpliced(picked, 2, changed(story.entries[picked])))
      ]
      for (const entries of rewritten) {
        const seals = sealed(entries, sizes).filter(({ toEntry }) => Number(toEntry) <= entries.length)
        // nothing that was kept, nothing that could tell
        yield* expectVerdict({ entries, seals }, { _tag: "Consistent", provenTo: 0n })
        if (seals.length < story.seals.length) continue
        const provenTo = BigInt(seal.fromEntry) - 1n
        const fault = { _tag: "KeptSealDiffers", ...range(seal), provenTo } as const
        yield* expectVerdict({ entries, seals, kept: story.seals }, fault)
        const last = story.seals.at(-1) ?? seal
        const { hash, toEntry } = last
        const whole = { ...fault, ...range(last), fromEntry: 1n, provenTo: 0n }
        yield* expectVerdict({ entries, seals, kept: [{ hash, toEntry }] }, whole)
        const entry = entries.findIndex((entry, index) => canonical(entry) !== canonical(story.entries[index]))
        yield* expectVerdict(
          { entries, seals, kept: story.seals, keptEntries: story.entries },
          { _tag: "EntryDiffers", entry: BigInt(entry + 1), kept: canonical(story.entries[entry]), provenTo }
        )
      }
      // other bounds, with the same entries
      const seals = sealed(story.entries, [story.entries.length])
      const { hash, toEntry } = seal
      const whole = { fromEntry: 1n, toEntry: BigInt(toEntry) }
      const expected = Number(toEntry) < story.entries.length
        ? { _tag: "KeptSealMissing" as const, seal: undefined, toEntry: whole.toEntry }
        : seal.seal === "1"
        ? { _tag: "Unchanged" as const }
        : { _tag: "KeptSealDiffers" as const, seal: 1n, ...whole }
      yield* expectVerdict({ entries: story.entries, seals, kept: [{ hash, toEntry }] }, expected)
      const [first] = story.seals
      if (first !== undefined && Number(first.toEntry) < story.entries.length) {
        const missing = { _tag: "KeptSealMissing", seal: 1n, toEntry: BigInt(first.toEntry) } as const
        yield* expectVerdict({ entries: story.entries, seals, kept: [first] }, missing)
      }
    }), runs)

  it.effect.prop("the rewritten seal, and the one that does not follow", [storyParts], ([parts]) =>
    Effect.gen(function*() {
      const { entries, seal, seals } = storyOf(parts)
      const index = Number(seal.seal) - 1
      const hash = "ab".repeat(32)
      const rewritten = seals.with(index, { ...seal, hash })
      yield* expectVerdict({ entries, seals: rewritten }, { _tag: "SealDiffers", ...range(seal) })
      const provenTo = BigInt(seal.toEntry)
      const proven = { _tag: "SealRewritten", ...range(seal), provenTo } as const
      yield* expectVerdict({ entries, seals: rewritten, kept: [seal] }, proven)
      const number = BigInt(seal.seal)
      const broken = (change: Partial<Seal>, reason: "number" | "entries" | "previousHash") =>
        expectVerdict(
          { entries, seals: seals.with(index, { ...seal, ...change }) },
          { _tag: "SealChainBroken", seal: number, reason }
        )
      yield* broken({ previousHash: hash }, "previousHash")
      yield* broken({ seal: `${index + 2}` }, "number")
      yield* broken({ fromEntry: `${BigInt(seal.fromEntry) + 1n}` }, "entries")
      yield* broken({ toEntry: `${BigInt(seal.fromEntry) - 1n}` }, "entries")
      yield* broken({ toEntry: `${BigInt(seal.fromEntry) + 1_000n}` }, "entries")
      if (index + 1 < seals.length) {
        const fault = { _tag: "SealChainBroken", seal: number, reason: "number" } as const
        yield* expectVerdict({ entries, seals: without(seals, index) }, fault)
      }
      for (const malformed of ["{", { ...seal, hash: hash.toUpperCase() }, { ...seal, toEntry: 3 }, null]) {
        const evidence = { entries, seals: [...seals.slice(0, index), malformed] }
        yield* expectVerdict(evidence, { _tag: "SealMalformed", seal: number })
      }
    }), runs)

  it.effect.prop("the end that was cut off", [storyParts], ([parts]) =>
    Effect.gen(function*() {
      const { entries, seal, seals } = storyOf(parts)
      const index = Number(seal.seal) - 1
      const entry = BigInt(seal.fromEntry)
      const before = entries.slice(0, Number(entry) - 1)
      const [{ hash, toEntry }, number] = [seal, BigInt(seal.seal)]
      const cut = { entries: before, seals: seals.slice(0, index), kept: seals }
      yield* expectVerdict(cut, { _tag: "EntryMissing", entry, provenTo: entry - 1n })
      yield* expectVerdict({ ...cut, kept: [{ hash, toEntry }] }, { _tag: "EntryMissing", entry, provenTo: 0n })
      yield* expectVerdict({ ...cut, kept: [{ hash, seal: seal.seal }] }, { _tag: "KeptSealMissing", seal: number })
      const missing = { _tag: "KeptSealMissing", seal: number, toEntry: BigInt(toEntry) } as const
      yield* expectVerdict({ ...cut, entries, kept: [seal] }, missing)
      yield* expectVerdict({ ...cut, kept: [], keptEntries: entries }, { _tag: "EntryMissing", entry })
      yield* expectVerdict({ ...cut, kept: [] }, { _tag: "Consistent", lastEntry: entry - 1n })
    }), runs)
})

describe("verifyJournal", () => {
  const entries = deposits
  const seals = sealed(deposits, [3, 3, 3])

  it.effect("fails where the kept seals or entries are unreadable, or not in order", () =>
    Effect.gen(function*() {
      const [first, second, third] = seals
      const { hash } = first ?? assert.fail()
      for (
        const kept of [
          { kept: [second, first] },
          { kept: [third, { hash, toEntry: "3" }] },
          { kept: [{ hash }] },
          { kept: ["", first] },
          { kept: [{ hash: "ab", seal: "1" }] },
          { kept: [{ ...first, integratorId: "acme" }] },
          { kept: [JSON.stringify({ hash, seal: "1", toEntry: "3", integratorId: "acme" })] },
          { kept: [{ hash, seal: 1n, integratorId: "acme" }] },
          { keptEntries: entries.toReversed() },
          { keptEntries: [entries[0], entries[0]] },
          { keptEntries: entries.slice(5, 6) },
          { keptEntries: without(entries, 5) },
          { keptEntries: [...entries, entries[8]] },
          { keptEntries: ["{}"] }
        ]
      ) {
        const error = yield* Effect.flip(verify({ entries, seals, ...kept }))
        assert.instanceOf(error, KeptUnreadable)
      }
      // what was kept is at fault, whatever the journal is
      assert.instanceOf(yield* Effect.flip(verify({ entries, seals: ["{"], kept: ["{"] })), KeptUnreadable)
    }))

  it.effect("reads no further than it needs, by promises, and rejects as its source does", () =>
    Effect.gen(function*() {
      let read = 0
      const endless = async function*() {
        for (;; read++) yield JSON.stringify({ ...entries[0], entry: `${read + 1}` })
      }
      const verdict = yield* Effect.promise(() =>
        Promised.verifyJournal({ entries: endless(), seals: [seals[0] ?? "", "{"] })
      )
      assert.deepStrictEqual(verdict, { _tag: "SealMalformed", seal: 2n, provenTo: 0n })
      assert.isAtMost(read, 4)
      const lost = async function*(): AsyncGenerator<string> {
        throw new Error("the disk is gone")
      }
      const rejected = yield* Effect.promise(() =>
        Promised.verifyJournal({ entries: lost(), seals }).then(() => "resolved", (error: Error) => error.message)
      )
      assert.strictEqual(rejected, "the disk is gone")
      const kept = yield* Effect.promise(() =>
        Promised.verifyJournal({ entries: [], seals: [], kept: ["{}"] }).then(() => "resolved", (error: Error) => error)
      )
      assert.instanceOf(kept, KeptUnreadable)
    }))
})
