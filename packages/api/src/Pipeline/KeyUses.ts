import type { FoundKey, KeyUse } from "@card-rewards/core/ApiKeys"
import { slotOf } from "@card-rewards/core/Slots"
import { Duration, Effect } from "effect"
import { LRUCache } from "lru-cache"
import type { Cells } from "../Cells.ts"

/** How often uses of keys are written. */
const writeEveryMillis = 2_000

const minuteMillis = 60_000

/** Collects the uses of keys, one for each key and minute, and writes them in the background. */
export const make = Effect.fnUntraced(function*(cells: Cells["Service"], maxKeys: number) {
  const minutes = new LRUCache<string, number>({ max: maxKeys })
  const unwritten = new Map<string, KeyUse>()
  const write = Effect.suspend(() => {
    if (unwritten.size === 0) return Effect.void
    const uses = [...unwritten.values()]
    unwritten.clear()
    const byCell = Map.groupBy(uses, ({ integratorId }) => cells.of(slotOf(integratorId)))
    return Effect.forEach(byCell, ([services, own]) =>
      (services?.apiKeys.markUsed(own) ?? Effect.void).pipe(
        // lost while the database is unreachable: the next minute's use is recorded again
        Effect.catchCause((cause) => Effect.logDebug("Uses of keys were not recorded", cause))
      ), { concurrency: "unbounded", discard: true })
  })
  yield* Effect.addFinalizer(() => Effect.timeoutOption(write, Duration.seconds(1)))
  yield* write.pipe(Effect.delay(Duration.millis(writeEveryMillis)), Effect.forever, Effect.forkScoped)
  return (key: FoundKey, at: number): FoundKey => {
    const id = `${key.integratorId}\0${key.name}`
    const minute = Math.floor(at / minuteMillis)
    if (minutes.get(id) === minute) return key
    minutes.set(id, minute)
    unwritten.set(id, { integratorId: key.integratorId, name: key.name, at })
    return key
  }
})
