import { Effect } from "effect"
import { inspect } from "node:util"
import type { Operation } from "./Operation.ts"
import { type Mismatch, run, type RunOptions } from "./Run.ts"

/** Replays that shrinking may take. */
const maxReplays = 400

/** Drops operations, in ever smaller pieces, while the rest still fails, and in the same way. */
export const shrink = Effect.fnUntraced(function*(
  operations: ReadonlyArray<Operation>,
  first: Mismatch,
  options: RunOptions,
  replaysAtMost = maxReplays
) {
  let best = { operations: operations.slice(0, first.index + 1), mismatch: first }
  let replays = 0
  const half = (size: number) => size === 1 ? 0 : Math.ceil(size / 2)
  for (let size = Math.ceil(best.operations.length / 2); size >= 1; size = half(size)) {
    for (let at = best.operations.length - size; at > -size && replays < replaysAtMost; at -= size) {
      const start = Math.max(at, 0)
      const fewer = [...best.operations.slice(0, start), ...best.operations.slice(at + size)]
      replays++
      const mismatch = yield* run(fewer, options)
      if (mismatch === undefined || kindOf(mismatch) !== kindOf(first)) continue
      best = { operations: fewer.slice(0, mismatch.index + 1), mismatch }
    }
  }
  return best
})

/** What was compared, without the user and the index. */
const kindOf = ({ what }: Mismatch): string => what.startsWith("a failure") ? what : what.split(" of ")[0] ?? what

/** Lines of a story that a report shows, at its beginning and at its end. */
const shownLines = 20

/** A mismatch as text: what was done, what was expected and what came. */
export const report = (name: string, { actual, expected, story, what }: Mismatch): string => {
  const show = (value: unknown) => inspect(value, { depth: 10, breakLength: 160, maxArrayLength: 20 })
  const lines = story.length <= 2 * shownLines
    ? story
    : [...story.slice(0, shownLines), `… ${story.length - 2 * shownLines} more …`, ...story.slice(-shownLines)]
  return `${name}, ${what}\n  ${lines.join("\n  ")}\nexpected ${show(expected)}\nactual ${show(actual)}`
}
