import type { Deliveries, EndpointRecord } from "@card-rewards/core/Deliveries"
import { Effect } from "effect"
import type { Consumer } from "./Consumer.ts"
import { type DispatcherContext, lose } from "./Leases.ts"

/** Endpoints that one record covers, at most. */
const maxEndpoints = 256
/** A record of fewer attempts waits a moment for more: the cost of its statement is shared by them. */
const fewAttempts = 256
const gatherMillis = 12

interface Unrecorded {
  readonly consumer: Consumer
  readonly record: EndpointRecord
}

/** Records what became of deliveries. Returns whether there was anything; fails where nothing could be recorded. */
export const step = (context: DispatcherContext) => {
  const { clock, consumers, deliveries, sender } = context
  let atOnce = maxEndpoints
  /** Endpoints whose last record was refused beside stored ones; the next time they are left to their lease's end. */
  const suspects = new WeakSet<Consumer>()
  const recordable = () => [...consumers].flatMap(({ consumer }) => consumer.canRecord ? [consumer] : [])

  return Effect.gen(function*() {
    const waiting = recordable()
    if (waiting.length === 0) return false
    if (waiting.reduce((sum, { unrecorded }) => sum + unrecorded, 0) < fewAttempts) yield* Effect.sleep(gatherMillis)
    const batch = recordable().slice(0, atOnce).map((consumer) => ({ consumer, record: consumer.record() }))
    const now = clock.currentTimeMillisUnsafe()
    const { fault, lost, refused, stored } = yield* recordParts(deliveries, batch, now).pipe(
      // what takes the database too long is done in smaller parts
      Effect.tapError(() => Effect.sync(() => atOnce = Math.max(1, batch.length >> 1)))
    )
    atOnce = Math.min(maxEndpoints, Math.ceil(1.25 * atOnce))
    for (const consumer of stored) {
      suspects.delete(consumer)
      consumer.recorded(clock.currentTimeMillisUnsafe())
    }
    // where nothing can be recorded, the fault is hardly that of a record: all are tried again
    const dropped = stored.length === 0 ? [] : refused.filter((consumer) => suspects.has(consumer))
    if (stored.length > 0) for (const consumer of refused) suspects.add(consumer)
    yield* lose(context, lost)
    for (const consumer of dropped) sender.lose(consumer)
    if (dropped.length > 0) {
      const ids = dropped.map(({ lease }) => lease.integratorId).join(", ")
      yield* Effect.logError(`Webhook attempts cannot be recorded and are left to the lease's end: ${ids}`, fault)
    }
    if (stored.length > 0) sender.schedule()
    else if (refused.length > 0) return yield* Effect.die(fault)
    return stored.length > 0
  })
}

/**
 * Records a batch; where that fails by a defect, its halves, down to single endpoints: one whose record is refused does
 * not hold up the others.
 */
const recordParts = Effect.fnUntraced(function*(
  deliveries: Deliveries["Service"],
  batch: ReadonlyArray<Unrecorded>,
  now: number
) {
  const parts = [batch]
  const stored: Array<Consumer> = []
  const lost: Array<Consumer> = []
  const refused: Array<Consumer> = []
  let fault: unknown
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const recorded = yield* deliveries.record(part.map(({ record }) => record), now).pipe(
      Effect.catchDefect((defect) => Effect.sync(() => void (fault = defect)))
    )
    if (recorded !== undefined) {
      for (const { consumer } of part) {
        const { integratorId } = consumer.lease
        if (recorded.stored.has(integratorId)) stored.push(consumer)
        else if (!recorded.busy.has(integratorId)) lost.push(consumer)
      }
    } else if (part.length === 1) refused.push(...part.map(({ consumer }) => consumer))
    else {
      const middle = part.length >> 1
      parts.push(part.slice(middle), part.slice(0, middle))
    }
  }
  return { fault, lost, refused, stored }
})
