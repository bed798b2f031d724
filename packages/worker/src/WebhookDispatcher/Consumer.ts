import type {
  EndpointLease,
  EndpointRecord,
  Leased,
  PollRequest,
  Reading,
  ReadRequest,
  Released
} from "@card-rewards/core/Deliveries"
import {
  allowance,
  type AttemptResult,
  type Breaker,
  breakerAfter,
  isOpen,
  isSuccess,
  type RetryDelays
} from "@card-rewards/domain/Delivery"
import { recentMillis, slowMillis } from "@card-rewards/domain/DeliverySlots"
import type { SigningSecrets } from "@card-rewards/domain/WebhookSignature"
import type { Item } from "./Item.ts"
import { Outcomes } from "./Outcomes.ts"
import { Window } from "./Window.ts"

/** Bytes of bodies that one read of one endpoint may bring. */
const maxReadBytes = 1_048_576

/** While there is something to send, it is read again after this: the endpoint may have another URL, or be deleted. */
const freshMillis = 100

/** How long a lease without anything to send is kept, and an endpoint without a delivery for a probe is left alone. */
const idleMillis = 5_000

/** How long an endpoint is left alone whose read failed alone for the first time: its connection may have been lost. */
const suspectMillis = 1_000

/** The same, where it fails again: its secrets or deliveries cannot be read. */
const unreadableMillis = 60_000

/** One attempt in flight. */
export interface Sending {
  readonly consumer: Consumer
  readonly item: Item
  readonly url: string
  readonly secrets: SigningSecrets
  readonly revision: number
  readonly isProbe: boolean
  readonly startedAt: number
  /** Ends it without a result; undefined until it has started. */
  abort: (() => void) | undefined
}

/** The last read of an endpoint, which failed. */
interface FailedRead {
  /** With how many endpoints together the next one is made, at most. */
  readonly maxTogether: number
  /** How many reads of the process had succeeded by then. */
  readonly succeeded: number
  /** How many reads have failed since the last that did not, of this endpoint alone, while others succeeded. */
  readonly alone: number
  /** Until when the endpoint is left alone, if it is. */
  readonly notBefore: number | undefined
}

/**
 * A worker's side of one leased endpoint: what is in its window, which attempts are in flight, and what is to be
 * recorded. It has no effects; times are in milliseconds, `now` is real time.
 */
export class Consumer {
  readonly lease: EndpointLease
  /** The attempts in flight, the oldest first. */
  readonly sendings: Array<Sending> = []
  private readonly delays: RetryDelays
  private readonly window: Window
  private readonly outcomes: Outcomes
  private reading: Reading | undefined
  /** When the last read ended, and when the last poll began. */
  readAt = Number.NEGATIVE_INFINITY
  private polledAt = Number.NEGATIVE_INFINITY
  /** While it is read nothing is recorded, and the other way round: a read shows the retries as of one moment. */
  private isReading = false
  /** Whether there may be more than was read: stored events, or due retries; see {@link isReadDue}. */
  private isUnread = false
  private requested: ReadRequest | undefined
  private failedRead: FailedRead | undefined
  private breaker: Breaker
  private isSlow: boolean
  private activeAt: number

  constructor({ ahead, breaker, cursor, generation, integratorId, token }: Leased, now: number, delays: RetryDelays) {
    this.lease = { integratorId, generation, token }
    this.delays = delays
    this.window = new Window({ cursor, ahead })
    this.outcomes = new Outcomes(this.window, delays)
    this.breaker = breaker
    this.isSlow = breaker.failures > 0
    this.activeAt = now
  }

  /** Attempts that have ended and are not recorded. */
  get unrecorded(): number {
    return this.outcomes.count
  }

  /**
   * Notices an attempt that lasts too long. Returns whether the endpoint is slow: it is from the moment that an attempt
   * fails or lasts too long, until one succeeds in time.
   */
  detectSlow(now: number): boolean {
    const [oldest] = this.sendings
    if (oldest !== undefined && now - oldest.startedAt > slowMillis) this.isSlow = true
    return this.isSlow
  }

  /** How many attempts in flight are recent. */
  recent(now: number): number {
    const first = this.sendings.findIndex(({ startedAt }) => now >= startedAt && now - startedAt < recentMillis)
    return first < 0 ? 0 : this.sendings.length - first
  }

  /**
   * Begins a read, if there may be more than was read, or if what is to be sent was read a while ago. While the window
   * has `maxBytes` of bodies, nothing is added.
   */
  beginRead(now: number, maxBytes = maxReadBytes): ReadRequest | undefined {
    const sinceMillis = now - this.readAt
    const isOld = this.window.size > 0 && (sinceMillis >= freshMillis || sinceMillis < 0)
    if (!isOld && !this.mayHaveMore) return undefined
    if (!this.canRead) {
      this.isUnread = true
      return undefined
    }
    this.isReading = true
    this.isUnread = false
    const { room, size } = this.window
    const left = Math.min(maxReadBytes, maxBytes - this.window.characters)
    const full = { ...room, events: 0, retries: 0, replay: { ...room.replay, events: 0 } }
    // the first body of a read is read whatever its size
    this.requested = { ...this.lease, ...(left > 0 || size === 0 ? room : full), maxBytes: Math.max(0, left) }
    return this.requested
  }

  /** Begins to find out whether there is more than was read, unless that is known, or was found out just now. */
  beginPoll(now: number, pollMillis: number): PollRequest | undefined {
    const sinceMillis = now - Math.max(this.readAt, this.polledAt)
    const isDue = sinceMillis >= pollMillis || sinceMillis < 0
    if (!isDue || this.isReading || this.mayHaveMore || !this.window.isLow) return undefined
    this.polledAt = now
    return { ...this.lease, after: this.window.log.readTo }
  }

  /** There may be more to read than the last read has found. */
  markUnread(): void {
    this.isUnread = true
  }

  private get canRead(): boolean {
    return !this.isReading && !this.outcomes.isRecording
  }

  /** Whether it is to be read at once: there is room for more events, and there may be some. */
  get isReadDue(): boolean {
    return this.canRead && !this.isSuspect && this.mayHaveMore
  }

  private get mayHaveMore(): boolean {
    const { isLow, log, replay } = this.window
    return ((log.hasMore || this.isUnread) && isLow) || replay?.isLow === true
  }

  /** Whether its last read failed: it may have been the reason, and is read apart from endpoints that are none. */
  get isSuspect(): boolean {
    return this.failedRead !== undefined
  }

  /** How many endpoints one statement may read together with this one, itself included. */
  maxTogether(now: number): number {
    const { maxTogether = Number.POSITIVE_INFINITY, notBefore = now } = this.failedRead ?? {}
    // the clock may have been set back since
    return now < notBefore && now >= this.readAt ? 0 : maxTogether
  }

  /**
   * Records that a read of `together` endpoints has failed: the next one has half of them at most. An endpoint whose
   * read fails alone, while those of others succeed, is left alone for a while, and for a minute where that comes
   * again. Returns whether that is so; where no read of the process succeeds, the fault is hardly the endpoint's.
   */
  recordFailedRead(together: number, succeeded: number, now: number): boolean {
    const isAlone = together === 1 && succeeded > (this.failedRead?.succeeded ?? succeeded)
    const alone = (this.failedRead?.alone ?? 0) + (isAlone ? 1 : 0)
    const isUnreadable = isAlone && alone > 1
    const notBefore = isAlone ? now + (isUnreadable ? unreadableMillis : suspectMillis) : undefined
    this.failedRead = { maxTogether: Math.max(1, together >> 1), succeeded, alone, notBefore }
    this.readAt = now
    this.isReading = false
    this.isUnread = true
    return isUnreadable
  }

  /** Takes in what was read. */
  add(reading: Reading, now: number): void {
    if (this.reading?.revision !== reading.revision) this.breaker = reading.breaker
    this.reading = reading
    this.readAt = now
    this.isReading = false
    this.failedRead = undefined
    const { events: maxEvents = 0, maxBytes = 0, retries = 0 } = this.requested ?? {}
    const added = reading.retries.filter((retry) => this.window.addRetry(retry)).length
    if (added > 0 && reading.retries.length >= retries) this.isUnread = true
    // a body that did not fit may be as large as all of those that did
    const bytes = reading.events.reduce((sum, { body }) => sum + body.length, 0)
    const isLimited = reading.events.length >= maxEvents || 2 * bytes >= maxBytes
    const events = this.window.addEvents(reading, isLimited)
    for (const item of events) if (item.state === "blocked") this.outcomes.block(item)
    if (this.window.size > 0) this.activeAt = now
  }

  /** How many attempts it may make now, of those that wait; `isProbe` where it is the only one of an open breaker. */
  offer(now: number): { readonly attempts: number; readonly isProbe: boolean } {
    // a failed attempt keeps its slot until it is recorded, so that few follow it before the breaker opens
    if (this.window.readyCount === 0) return { attempts: 0, isProbe: false }
    const inFlight = this.sendings.length + this.outcomes.failed
    const { attempts, probe } = allowance(this.breaker, { inFlight, now })
    const isSigned = this.reading?.secrets !== undefined
    return { attempts: isSigned ? Math.min(attempts, this.window.readyCount) : 0, isProbe: probe }
  }

  /** Begins attempts, as many as were offered at most. */
  begin(attempts: number, isProbe: boolean, now: number): ReadonlyArray<Sending> {
    if (this.reading?.secrets === undefined) return []
    const { revision, secrets, url } = this.reading
    const items = isProbe ? this.window.takeProbe() : this.window.take(attempts)
    return items.map((item) => {
      const sending: Sending =
        { consumer: this, item, url, secrets, revision, isProbe, startedAt: now, abort: undefined }
      this.sendings.push(sending)
      return sending
    })
  }

  /** Forgets an attempt in flight. Returns whether it was one. */
  drop(sending: Sending): boolean {
    const index = this.sendings.indexOf(sending)
    if (index >= 0) this.sendings.splice(index, 1)
    return index >= 0
  }

  /** An attempt has ended; `jitter` is a random number of `jitterRange`. */
  end(sending: Sending, result: AttemptResult, durationMillis: number, jitter: number): void {
    if (!this.drop(sending)) return
    const { isProbe, item, revision, startedAt } = sending
    this.isSlow = !isSuccess(result) || durationMillis > slowMillis
    this.outcomes.add({ item, revision, startedAt, durationMillis, result, jitter })
    if (revision !== this.reading?.revision) return
    const attempt = { success: isSuccess(result), probe: isProbe, endedAt: startedAt + durationMillis }
    this.breaker = breakerAfter(this.breaker, attempt, this.delays)
  }

  /** Whether there is something to record. */
  get hasRecord(): boolean {
    return this.outcomes.hasRecord(isOpen(this.breaker))
  }

  /** Whether that may be recorded now. */
  get canRecord(): boolean {
    return this.hasRecord && !this.isReading
  }

  record(): EndpointRecord {
    const revision = this.reading?.revision ?? 0
    const record = this.outcomes.record(isOpen(this.breaker), revision)
    return { ...this.lease, ...record, revision, breaker: this.breaker }
  }

  recorded(now: number): void {
    this.outcomes.recorded()
    this.activeAt = now
  }

  /** How the lease is to be given up, if it is: nothing is in flight, and nothing to be sent for a while. */
  release(now: number, isStopping: boolean): Released | undefined {
    if (this.sendings.length > 0 || this.hasRecord || this.isReading) return undefined
    if (this.failedRead !== undefined) {
      return isStopping ? { ...this.lease, notBefore: this.failedRead.notBefore } : undefined
    }
    if (this.reading === undefined) return isStopping ? this.lease : undefined
    if (this.reading.secrets === undefined) return { ...this.lease, notBefore: now + unreadableMillis }
    if (isStopping || (this.window.size === 0 && now - this.activeAt >= idleMillis)) return this.lease
    if (!isOpen(this.breaker)) return undefined
    if ((this.breaker.probeAt ?? 0) > now) return this.lease
    // events that wait for retries which are not due
    return this.window.readyCount === 0 ? { ...this.lease, notBefore: now + idleMillis } : undefined
  }
}
