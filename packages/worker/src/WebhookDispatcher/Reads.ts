import type { ReadRequest } from "@card-rewards/core/Deliveries"
import { Effect } from "effect"
import type { Consumer } from "./Consumer.ts"
import { type DispatcherContext, lose } from "./Leases.ts"

/** Bytes of bodies in the windows of a process's endpoints, at most, where none has a body larger than its part. */
const maxBytes = 64 * 1_048_576

/** Endpoints that one read covers, at most. */
const maxRead = 256

interface Unread {
  readonly consumer: Consumer
  readonly request: ReadRequest
}

/** Reads what is to be delivered, and sends it. Returns whether there may be more that can be read now. */
export const step = (context: DispatcherContext) => {
  const { clock, consumers, deliveries, sender } = context
  let succeeded = 0

  return Effect.gen(function*() {
    const now = clock.currentTimeMillisUnsafe()
    const reading = choose(context, now)
    if (reading.length === 0) return false
    const found = yield* deliveries.read(reading.map(({ request }) => request), now).pipe(
      Effect.catchCause((cause) => {
        const failedAt = clock.currentTimeMillisUnsafe()
        const refused = reading.filter(({ consumer }) =>
          consumer.recordFailedRead(reading.length, succeeded, failedAt))
        if (refused.length === 0) {
          // a read of another endpoint shows whether the database is the reason
          const other = [...consumers].find(({ consumer }) => !consumer.isSuspect)
          other?.consumer.markUnread()
          return Effect.failCause(cause)
        }
        const ids = refused.map(({ request }) => request.integratorId).join(", ")
        return Effect.asVoid(Effect.logError(`Webhooks cannot be read and are left alone for a minute: ${ids}`, cause))
      })
    )
    if (found === undefined) return true
    succeeded++
    const byIntegrator = new Map(found.map((one) => [one.integratorId, one]))
    const lost: Array<Consumer> = []
    for (const { consumer } of reading) {
      const one = byIntegrator.get(consumer.lease.integratorId)
      if (one === undefined) lost.push(consumer)
      else consumer.add(one, clock.currentTimeMillisUnsafe())
    }
    yield* lose(context, lost)
    sender.send()
    // what ended meanwhile may be recorded now
    sender.schedule()
    return reading.some(({ consumer }) => consumer.isReadDue)
  })
}

/**
 * The endpoints that one statement reads: those first that have not been read for longest. Suspects of a read that
 * failed are read apart from others, and fewer at a time, until the one is found that makes it fail.
 */
const choose = ({ consumers }: DispatcherContext, now: number): ReadonlyArray<Unread> => {
  const share = Math.floor(maxBytes / Math.max(consumers.count, consumers.cellShares.endpoints))
  const longestUnread = [...consumers].sort((one, other) => one.consumer.readAt - other.consumer.readAt)
  const chosen: Array<Unread> = []
  let limit = maxRead
  for (const { consumer } of longestUnread) {
    const maxTogether = Math.min(limit, consumer.maxTogether(now))
    const isAmong = chosen[0] === undefined || chosen[0].consumer.isSuspect === consumer.isSuspect
    const request = isAmong && chosen.length < maxTogether ? consumer.beginRead(now, share) : undefined
    if (request === undefined) continue
    limit = maxTogether
    chosen.push({ consumer, request })
  }
  return chosen
}
