/** How a process divides its requests in flight among endpoints (decisions, section 7). */
import { maxInFlightPerEndpoint } from "./Delivery.ts"

/** The maximum number of requests in flight of one process. */
export const maxInFlight = 512

/** A request in flight is recent until so many milliseconds have passed since it started. */
export const recentMillis = 10
/**
 * The maximum number of recent requests of one process. They keep it busy with receivers that respond at once: more
 * would only take more processor time; requests to a slower receiver soon are no longer recent.
 */
export const maxRecent = 128

/** An endpoint whose response takes longer than this, or does not come, is slow until one comes within this time. */
export const slowMillis = 1_000
/** The maximum number of requests in flight to all slow endpoints together; the other slots are for the others. */
export const maxSlowInFlight = maxInFlight / 2
/**
 * An endpoint gets a k-th slot after its first only while k times this number are free, so that other endpoints still
 * find free slots.
 */
export const slotsPerShare = 8

/**
 * Divides the free slots among endpoints that have attempts to make, and returns each endpoint with the number that it
 * gets; endpoints without a slot are omitted. Slots are assigned in rounds, first to endpoints with the fewest requests
 * in flight. An endpoint gets its first slot while one is free, and its k-th only while {@link slotsPerShare} times k
 * are free. The same rule applies to recent requests and to slow endpoints, with their parts of the slots.
 */
export const shareSlots = <
  A extends { readonly inFlight: number; readonly recent: number; readonly slow: boolean; readonly attempts: number }
>(
  endpoints: ReadonlyArray<A>,
  free: { readonly limit: number; readonly recentLimit: number; readonly slowLimit: number }
): ReadonlyArray<A> => {
  const assigned = endpoints.map(() => 0)
  let { limit, recentLimit, slowLimit } = free
  for (let nth = 1; nth <= maxInFlightPerEndpoint && Math.min(limit, recentLimit) > 0; nth++) {
    for (const [index, { attempts, inFlight, recent, slow }] of endpoints.entries()) {
      const own = assigned[index] ?? 0
      if (own === attempts || inFlight + own + 1 !== nth) continue
      if (!isFree(limit, nth) || !isFree(recentLimit, recent + own + 1) || (slow && !isFree(slowLimit, nth))) continue
      assigned[index] = own + 1
      limit--
      recentLimit--
      if (slow) slowLimit--
    }
  }
  return endpoints.map((endpoint, index) => ({ ...endpoint, attempts: assigned[index] ?? 0 }))
    .filter(({ attempts }) => attempts > 0)
}

const isFree = (slots: number, nth: number) => slots > 0 && (nth === 1 || nth * slotsPerShare <= slots)
