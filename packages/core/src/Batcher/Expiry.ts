import { Clock, Effect, Latch } from "effect"
import { type LinkedEntry, LinkedList } from "./LinkedList.ts"

/** The minimum interval between two checks for entries that have exceeded their deadline. */
const minPauseMillis = 100

/** Milliseconds of the monotonic clock. */
export const nowMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))

/**
 * Forks a fiber that calls `fail` for entries past their deadline, which removes them. Returns the entries that it
 * watches: they are added in the order of their deadlines.
 */
export const failExpired = Effect.fnUntraced(function*<
  Watched extends LinkedEntry<Watched> & { readonly deadlineMillis: number }
>(
  fail: (entry: Watched) => void
) {
  const entries = new LinkedList<Watched>()
  const someAdded = yield* Latch.make()
  const check = Effect.gen(function*() {
    yield* someAdded.await
    const oldest = entries.first
    if (oldest === undefined) return someAdded.closeUnsafe()
    yield* Effect.sleep(Math.max(minPauseMillis, oldest.deadlineMillis - (yield* nowMillis)))
    const now = yield* nowMillis
    // one that fails takes others of its list along
    for (let next = entries.first; next !== undefined && next.deadlineMillis <= now; next = entries.first) fail(next)
  })
  yield* Effect.forkScoped(Effect.forever(check))
  return {
    add: (entry: Watched): void => {
      entries.add(entry)
      someAdded.openUnsafe()
    },
    delete: (entry: Watched): boolean => entries.delete(entry)
  }
})
