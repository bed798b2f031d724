import type { Deliveries, Outcome } from "@card-rewards/core/Deliveries"
import { Clock, Effect } from "effect"

/** Outcomes recorded at a time; attempts that end meanwhile go into the next batch. */
const maxRecorded = 512
/** A batch of fewer outcomes waits a moment for more: what a statement costs beside its rows is shared by them. */
const fewOutcomes = 256
const gatherMillis = 12

/** The outcomes of attempts until they are recorded, or are left to their claims' expiry. */
export class Recording<Ended extends { readonly outcome: Outcome }> {
  private waiting: Array<Ended> = []
  private atOnce = maxRecorded
  /** Outcomes that were refused alone, while others were recorded. */
  private readonly suspects = new WeakSet<Outcome>()

  private readonly deliveries: Deliveries["Service"]
  private readonly onEnd: (ended: Ended) => void

  /** `onEnd` is told of each once, when it waits no longer. */
  constructor(deliveries: Deliveries["Service"], onEnd: (ended: Ended) => void) {
    this.deliveries = deliveries
    this.onEnd = onEnd
  }

  add(ended: Ended): void {
    this.waiting.push(ended)
  }

  get size(): number {
    return this.waiting.length
  }

  /** Whether the claim of one has expired: what was delivered could be claimed again. */
  hasExpired(now: number): boolean {
    return this.waiting.some(({ outcome }) => outcome.claim.claimedUntil <= now)
  }

  /** Records a batch; gives whether there was one. Fails, or dies, where nothing can be recorded; then it all waits. */
  readonly step = Effect.gen({ self: this }, function*() {
    if (this.size === 0) return false
    if (this.size < fewOutcomes) yield* Effect.sleep(gatherMillis)
    const batch = this.waiting.slice(0, this.atOnce)
    const now = yield* Clock.currentTimeMillis
    const { busy, fault, outlived, refused } = yield* recordParts(this.deliveries, batch.map(({ outcome }) => outcome), now).pipe(
      // what takes the database too long is done in smaller parts, and others come first
      Effect.tapError(() =>
        Effect.sync(() => {
          this.atOnce = Math.max(1, batch.length >> 1)
          this.waiting = [...this.waiting.slice(batch.length), ...batch]
        })
      )
    )
    this.atOnce = Math.min(maxRecorded, Math.ceil(1.25 * this.atOnce))
    // Where nothing can be recorded the fault is hardly the outcomes'. They wait for as long as their claims last, so
    // that what is sent in vain is bounded. One that is refused while others are not may have met such a fault's end: it
    // is tried once more.
    const all = refused.length === batch.length
    const again = refused.filter((outcome) => !this.suspects.has(outcome) || (all && batch.length > 1))
    if (!all) for (const outcome of refused) this.suspects.add(outcome)
    const kept = new Set([...again, ...busy].filter(({ claim }) => claim.claimedUntil > now))
    this.waiting = [...this.waiting.slice(batch.length), ...batch.filter(({ outcome }) => kept.has(outcome))]
    for (const ended of batch) if (!kept.has(ended.outcome)) this.onEnd(ended)
    if (outlived > 0) yield* Effect.logWarning(`${outlived} webhook attempts outlived their claims`)
    const left = refused.filter((outcome) => !kept.has(outcome)).length
    if (left > 0) {
      const told = `${left} webhook attempts cannot be recorded and are left to their claims' expiry`
      yield* Effect.logError(told, fault)
    }
    if (all && kept.size > 0) return yield* Effect.die(fault)
    return busy.length < batch.length
  })
}

/**
 * Records a batch; where that fails by a defect, its halves, down to single outcomes: one that can never be recorded
 * does not hold up the others. Gives those that were refused alone, with the last defect, those whose endpoints were busy,
 * and the number of those whose claims no longer held. An expired claim may be another's by now, but nothing is lost by
 * trying.
 */
const recordParts = Effect.fnUntraced(function*(
  deliveries: Deliveries["Service"],
  batch: ReadonlyArray<Outcome>,
  now: number
) {
  const parts = [batch]
  const refused: Array<Outcome> = []
  const busy: Array<Outcome> = []
  let outlived = 0
  let fault: unknown
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const recorded = yield* deliveries.record(part, now).pipe(
      Effect.catchDefect((defect) => Effect.sync(() => void (fault = defect)))
    )
    if (recorded !== undefined) {
      busy.push(...recorded.busy)
      outlived += part.length - recorded.held - recorded.busy.length
    } else if (part.length === 1) refused.push(...part)
    else {
      const middle = part.length >> 1
      parts.push(part.slice(middle), part.slice(0, middle))
    }
  }
  return { busy, fault, outlived, refused }
})
