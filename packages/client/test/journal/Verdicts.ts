import { type JournalVerdict, verifyJournal } from "@card-rewards/client/VerifyJournal"
import { assert } from "@effect/vitest"
import { Effect, Stream } from "effect"

/** What a verification is given; anything, as it may be in a file. */
export interface Evidence {
  readonly entries: ReadonlyArray<unknown>
  readonly seals: ReadonlyArray<unknown>
  readonly kept?: ReadonlyArray<unknown>
  readonly keptEntries?: ReadonlyArray<unknown>
}

const streamOf = (items: ReadonlyArray<unknown>): Stream.Stream<never> =>
  Stream.fromIterable(items as ReadonlyArray<never>)

/** The verdict about it. */
export const verify = ({ entries, kept = [], keptEntries = [], seals }: Evidence) =>
  verifyJournal({
    entries: streamOf(entries),
    seals: streamOf(seals),
    kept: streamOf(kept),
    keptEntries: streamOf(keptEntries)
  })

/** Expects a verdict with these members. */
export const expectVerdict = Effect.fnUntraced(function*(evidence: Evidence, expected: Partial<JournalVerdict>) {
  const verdict = yield* verify(evidence)
  assert.deepStrictEqual({ ...verdict, ...expected }, verdict)
})
