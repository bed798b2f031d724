import { maxInFlight, maxInFlightPerEndpoint, maxSlowInFlight, slowMillis } from "@card-rewards/domain/Delivery"

/** What is known of an attempt that takes a place. */
export interface Taker {
  readonly integratorId: string
  readonly slow: boolean
  /** When its claim expires. */
  readonly claimedUntil: number
}

/** One attempt. */
export interface Place {
  readonly integratorId: string
  /** When its request began. */
  readonly beganAt: number
  readonly claimedUntil: number
}

/**
 * The places of this process's requests in flight (decisions, section 7), and which endpoints are slow. An endpoint is
 * slow from the moment that an attempt lasts longer than {@link slowMillis} or fails, until one succeeds in time.
 */
export class Places {
  private readonly taken = new Map<string, Set<Place>>()
  private readonly slow = new Set<string>()
  private total = 0

  take({ claimedUntil, integratorId, slow }: Taker, now: number): Place {
    const place = { integratorId, beganAt: now, claimedUntil }
    const places = this.taken.get(integratorId)
    if (places === undefined) this.taken.set(integratorId, new Set([place]))
    else places.add(place)
    if (slow) this.slow.add(integratorId)
    this.total++
    return place
  }

  /** Gives the place back; a second time does nothing. */
  release(place: Place): void {
    const places = this.taken.get(place.integratorId)
    if (places?.delete(place) !== true) return
    if (places.size === 0) this.taken.delete(place.integratorId)
    this.total--
  }

  /** What an attempt tells about its endpoint. */
  learn(integratorId: string, attempt: { readonly success: boolean; readonly durationMillis: number }): void {
    if (attempt.success && attempt.durationMillis <= slowMillis) this.slow.delete(integratorId)
    else this.slow.add(integratorId)
  }

  get inFlight(): number {
    return this.total
  }

  /** What a claim may take now. */
  offer(now: number) {
    const inFlight = new Map<string, number>()
    let slowInFlight = 0
    let hasExpired = false
    for (const [integratorId, places] of this.taken) {
      inFlight.set(integratorId, places.size)
      for (const { beganAt, claimedUntil } of places) {
        if (now - beganAt > slowMillis) this.slow.add(integratorId)
        // attempts end long before: the clock has jumped
        if (claimedUntil <= now) hasExpired = true
      }
      if (this.slow.has(integratorId)) slowInFlight += places.size
    }
    return {
      limit: maxInFlight - this.total,
      perEndpoint: maxInFlightPerEndpoint,
      inFlight,
      slow: this.slow,
      slowLimit: maxSlowInFlight - slowInFlight,
      hasExpired
    }
  }
}
