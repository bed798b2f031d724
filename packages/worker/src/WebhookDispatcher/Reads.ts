import type { ReadRequest } from "@card-rewards/core/Deliveries"
import { Effect } from "effect"
import type { Consumer } from "./Consumer.ts"
import { type Context, lose } from "./Leases.ts"

/** Bytes of bodies in the windows of a process's endpoints, at most, where none has a body larger than its part. */
const maxBytes = 64 * 1_048_576

/** Endpoints that one read covers, at most. */
const maxRead = 256

/** While nothing is found an endpoint is read again after a millisecond for each of so many endpoints, 100 at most. */
const endpointsPerMilli = 20
const maxPollMillis = 100

/** Reads what is to be delivered, and sends it. Returns whether there may be more that can be read now. */
export const read = (context: Context) =>
  Effect.gen(function*() {
    const { clock, consumers, deliveries, sender } = context
    const pollMillis = Math.min(maxPollMillis, Math.floor(consumers.count / endpointsPerMilli))
    const now = clock.currentTimeMillisUnsafe()
    const share = Math.floor(maxBytes / Math.max(consumers.count, consumers.limits.endpoints))
    const reading: Array<{ readonly consumer: Consumer; readonly request: ReadRequest }> = []
    const longestUnread = [...consumers].sort((one, other) => one.consumer.readAt - other.consumer.readAt)
    for (const { consumer } of longestUnread) {
      const request = reading.length < maxRead ? consumer.request(now, pollMillis, share) : undefined
      if (request !== undefined) reading.push({ consumer, request })
    }
    if (reading.length === 0) return false
    const requests = reading.map(({ request }) => request)
    const found = yield* deliveries.read(requests, now).pipe(
      Effect.onError(() => Effect.sync(() => reading.forEach(({ consumer }) => consumer.unread())))
    )
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
    return reading.some(({ consumer }) => consumer.isLow)
  })
