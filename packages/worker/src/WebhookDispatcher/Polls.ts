import { Effect, type Latch } from "effect"
import type { DispatcherContext } from "./Leases.ts"

/** An endpoint is polled again after a millisecond for each of so many endpoints. */
const endpointsPerMilli = 4

/**
 * Finds out of which endpoints there is more to read than the last read has found, as another process may have stored
 * events, or a retry has become due, and has these read. A poll costs a fraction of a read.
 */
export const step = ({ clock, consumers, deliveries }: DispatcherContext, reads: Latch.Latch) =>
  Effect.gen(function*() {
    const now = clock.currentTimeMillisUnsafe()
    const pollMillis = Math.floor(consumers.count / endpointsPerMilli)
    const polled = [...consumers].flatMap(({ consumer }) => {
      const request = consumer.beginPoll(now, pollMillis)
      return request === undefined ? [] : [{ consumer, request }]
    })
    if (polled.length === 0) return false
    const found = yield* deliveries.poll(polled.map(({ request }) => request), now)
    for (const { consumer, request } of polled) if (found.has(request.integratorId)) consumer.markUnread()
    if (found.size > 0) reads.openUnsafe()
    return false
  })
