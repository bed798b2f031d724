import { maxInFlight, maxSlowInFlight, shareSlots } from "@card-rewards/domain/Delivery"
import type { Consumer, Sending } from "./Consumer.ts"

/** Attempts in flight and outcomes that are not recorded, at most: what is repeated where the process is killed. */
const maxUnrecorded = 768

/** A held endpoint. */
export interface Held {
  readonly consumer: Consumer
  /** Until when attempts may start, in nanoseconds of the monotonic clock: the lease outlasts them. */
  startUntilNanos: bigint
  /** When the lease ends, on that clock. */
  endsNanos: bigint
}

interface Offer {
  readonly consumer: Consumer
  readonly inFlight: number
  readonly slow: boolean
  readonly attempts: number
  readonly isProbe: boolean
}

/** The endpoints that a worker holds, by integrator, and its slots: one endpoint cannot use up those of the others. */
export class Consumers implements Iterable<Held> {
  private readonly held = new Map<string, Held>()
  /** Endpoints are served in turn: behind which one the next round begins. */
  private last = ""

  get count(): number {
    return this.held.size
  }

  [Symbol.iterator](): Iterator<Held> {
    return this.held.values()
  }

  get(integratorId: string): Held | undefined {
    return this.held.get(integratorId)
  }

  add(held: Held): void {
    this.held.set(held.consumer.lease.integratorId, held)
  }

  /** Whether the lease has ended, so that another worker may hold the endpoint. */
  hasEnded({ lease }: Consumer, nowNanos: bigint): boolean {
    return nowNanos > (this.held.get(lease.integratorId)?.endsNanos ?? nowNanos)
  }

  /** Removes the consumer, unless a later lease of this process has replaced it. */
  delete(consumer: Consumer): void {
    const { integratorId } = consumer.lease
    if (this.held.get(integratorId)?.consumer === consumer) this.held.delete(integratorId)
  }

  /** Whether there is something to read at once. */
  get areLow(): boolean {
    for (const { consumer } of this) if (consumer.isLow) return true
    return false
  }

  /** Whether there is something to record at once. */
  get canRecord(): boolean {
    for (const { consumer } of this) if (consumer.canRecord) return true
    return false
  }

  /** Begins the attempts that may be made now: at most 16 to an endpoint and 512 in all, endpoints in turn. */
  begin(now: number, nowNanos: bigint): ReadonlyArray<Sending> {
    const offers: Array<Offer> = []
    let taken = 0
    let unrecorded = 0
    let slowTaken = 0
    for (const { consumer, startUntilNanos } of this.inOrder()) {
      const inFlight = consumer.sendings.length
      const slow = consumer.slow(now)
      taken += inFlight
      unrecorded += consumer.unrecorded
      if (slow) slowTaken += inFlight
      if (nowNanos >= startUntilNanos) continue
      const { attempts, isProbe } = consumer.offer(now)
      if (attempts > 0) offers.push({ consumer, inFlight, slow, attempts, isProbe })
    }
    const limit = Math.min(maxInFlight - taken, maxUnrecorded - taken - unrecorded)
    const shares = shareSlots(offers, { limit, slowLimit: maxSlowInFlight - slowTaken })
    this.last = shares.at(-1)?.consumer.lease.integratorId ?? this.last
    return shares.flatMap(({ attempts, consumer, isProbe }) => consumer.begin(attempts, isProbe, now))
  }

  private *inOrder(): Generator<Held> {
    const before: Array<Held> = []
    let isBehind = !this.held.has(this.last)
    for (const [integratorId, held] of this.held) {
      if (isBehind) yield held
      else before.push(held)
      if (integratorId === this.last) isBehind = true
    }
    yield* before
  }
}
