import { shareSlots } from "@card-rewards/domain/DeliverySlots"
import { CellShares } from "./CellShares.ts"
import type { Consumer, Sending } from "./Consumer.ts"

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
  readonly recent: number
  readonly slow: boolean
  readonly attempts: number
  readonly isProbe: boolean
}

/** The endpoints that a worker holds in a cell, by integrator: one endpoint cannot use up the slots of the others. */
export class Consumers implements Iterable<Held> {
  /** The limits of all cells of the process. */
  readonly cellShares: CellShares
  private readonly held = new Map<string, Held>()
  /** Endpoints are served in turn: behind which one the next round begins. */
  private last = ""
  /** Recent attempts in flight, as of the last `begin`: once they are not, others may start. */
  recent = 0

  constructor(cellShares = new CellShares()) {
    this.cellShares = cellShares
  }

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

  /** Has the endpoints of integrators read at once. Returns whether there were any, and the process holds all. */
  markUnread(integratorIds: ReadonlySet<string>): boolean {
    const own = [...integratorIds].flatMap((integratorId) => this.held.get(integratorId) ?? [])
    for (const { consumer } of own) consumer.markUnread()
    return own.length > 0 && own.length === integratorIds.size
  }

  /** Whether there is something to read at once. */
  get isReadDue(): boolean {
    for (const { consumer } of this) if (consumer.isReadDue) return true
    return false
  }

  /** Whether there is something to record at once. */
  get canRecord(): boolean {
    for (const { consumer } of this) if (consumer.canRecord) return true
    return false
  }

  /** Begins the attempts that may be made now: at most 16 to an endpoint, and what the process may have, in turns. */
  begin(now: number, nowNanos: bigint): ReadonlyArray<Sending> {
    const offers: Array<Offer> = []
    const usage = { inFlight: 0, recent: 0, slow: 0, unrecorded: 0 }
    const use = (attempts: number, recent: number, slow: boolean) => {
      usage.inFlight += attempts
      usage.recent += recent
      usage.unrecorded += attempts
      if (slow) usage.slow += attempts
    }
    for (const { consumer, startUntilNanos } of this.inOrder()) {
      const inFlight = consumer.sendings.length
      const recent = consumer.recent(now)
      const slow = consumer.detectSlow(now)
      use(inFlight, recent, slow)
      usage.unrecorded += consumer.unrecorded
      if (nowNanos >= startUntilNanos) continue
      const { attempts, isProbe } = consumer.offer(now)
      if (attempts > 0) offers.push({ consumer, inFlight, recent, slow, attempts, isProbe })
    }
    this.cellShares.note(this, usage, this.count)
    const { inFlight, recent, slow, unrecorded } = this.cellShares.free(this)
    const free = { limit: Math.min(inFlight, unrecorded), recentLimit: recent, slowLimit: slow }
    const shares = shareSlots(offers, free)
    for (const { attempts, slow } of shares) use(attempts, attempts, slow)
    this.cellShares.note(this, usage, this.count)
    this.last = shares.at(-1)?.consumer.lease.integratorId ?? this.last
    this.recent = usage.recent
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
