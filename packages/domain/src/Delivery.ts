import { Schema } from "effect"
import { WebhookEventKind } from "./Event.ts"
import { text } from "./Ids.ts"
import { dayMillis, Timestamp } from "./Time.ts"

/** What becomes of a delivery: it waits for its next attempt, or it has ended. */
export const DeliveryState = Schema.Literals(["pending", "delivered", "exhausted", "cancelled"])
export type DeliveryState = typeof DeliveryState.Type

/** An event's id as a path takes it. */
export const EventId = text(1, 128)

/** One attempt: the receiver's status, or why there was none. */
export const DeliveryAttempt = Schema.Struct({
  at: Timestamp,
  durationMillis: Schema.Int,
  status: Schema.optionalKey(Schema.Int),
  error: Schema.optionalKey(Schema.String)
}).annotate({
  identifier: "DeliveryAttempt",
  description: "One attempt: the receiver's `status`, or why there was none (`error`)."
})

/** How an event was sent to an endpoint, or is to be (decisions, section 9). Times are real. */
export const Delivery = Schema.Struct({
  eventId: Schema.String,
  kind: WebhookEventKind,
  state: DeliveryState,
  createdAt: Timestamp,
  nextAttemptAt: Schema.optionalKey(Timestamp),
  attempts: Schema.Array(DeliveryAttempt)
}).annotate({
  identifier: "Delivery",
  expected: "an object",
  description: "How an event was sent to the endpoint. `nextAttemptAt` is there while it is pending."
})
export type Delivery = typeof Delivery.Type

/** Deliveries, newest first. */
export const DeliveryPage = Schema.Struct({
  deliveries: Schema.Array(Delivery),
  next: Schema.optionalKey(Schema.String)
}).annotate({ identifier: "DeliveryPage", description: "Deliveries, newest first." })
export type DeliveryPage = typeof DeliveryPage.Type

/**
 * Delays after the first, second, … failed attempt, in milliseconds. One attempt more than delays, then `exhausted`.
 */
export type RetryDelays = readonly [number, ...ReadonlyArray<number>]

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** The schedule of decisions, section 7: 13 attempts in about 76 hours. */
export const defaultRetryDelays: RetryDelays = [
  5 * second,
  30 * second,
  2 * minute,
  10 * minute,
  30 * minute,
  hour,
  2 * hour,
  4 * hour,
  8 * hour,
  12 * hour,
  24 * hour,
  24 * hour
]

/** Each delay is multiplied by a random number between these. */
export const jitterRange = { minimum: 0.8, maximum: 1.2 } as const

const maxRetryDelays = 50
const maxRetryDelayMillis = 7 * dayMillis
const unitMillis: Readonly<Record<string, number | undefined>> = { ms: 1, s: second, m: minute, h: hour, d: dayMillis }

/** Reads `300ms,5s,2m,1h`: 1 to 50 delays, each of 1 ms to 7 days. `undefined` where it is anything else. */
export const parseRetryDelays = (text: string): RetryDelays | undefined => {
  const [first, ...rest] = text.split(",").map(parseDelay)
  if (first === undefined || rest.length >= maxRetryDelays) return undefined
  const delays = rest.filter((delay) => delay !== undefined)
  return delays.length === rest.length ? [first, ...delays] : undefined
}

const parseDelay = (text: string): number | undefined => {
  const match = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text.trim())
  const millis = Number(match?.[1]) * (unitMillis[match?.[2] ?? ""] ?? Number.NaN)
  return millis >= 1 && millis <= maxRetryDelayMillis ? millis : undefined
}

/** How an attempt ended: the receiver's status, or why there was none. */
export type AttemptResult =
  | { readonly status: number; readonly answer: string; readonly retryAfterSeconds?: number | undefined }
  | { readonly error: string }

/** Success is 2xx. A redirect is a failure. */
export const isSuccess = (result: AttemptResult): boolean =>
  "status" in result && result.status >= 200 && result.status < 300

/** What becomes of a delivery after an attempt. */
export type AfterAttempt =
  | { readonly state: "delivered" | "exhausted" }
  | { readonly state: "pending"; readonly nextAttemptAt: number }

/**
 * The state after attempt number `attempt` (from 1) that ended at `endedAt` (milliseconds). `jitter` is a random number
 * of {@link jitterRange}. A `Retry-After` on 429 and 503 can make the delay longer, up to twice the schedule's.
 */
export const afterAttempt = (input: {
  readonly delays: RetryDelays
  readonly attempt: number
  readonly result: AttemptResult
  readonly endedAt: number
  readonly jitter: number
}): AfterAttempt => {
  if (isSuccess(input.result)) return { state: "delivered" }
  const scheduled = input.delays[input.attempt - 1]
  if (scheduled === undefined) return { state: "exhausted" }
  const wanted = Math.min(retryAfterMillis(input.result), 2 * scheduled)
  return { state: "pending", nextAttemptAt: input.endedAt + Math.round(Math.max(scheduled * input.jitter, wanted)) }
}

const retryAfterMillis = (result: AttemptResult): number =>
  "status" in result && (result.status === 429 || result.status === 503) ? (result.retryAfterSeconds ?? 0) * second : 0

/** An endpoint's breaker. Beyond {@link breakerThreshold}, `failures` counts the failed probes. */
export interface Breaker {
  /** Failures in a row. */
  readonly failures: number
  /** When a probe may go out, in milliseconds; only of an open breaker. */
  readonly probeAt: number | null
}

/** Failures in a row that open the breaker. */
export const breakerThreshold = 10
const firstProbeMillis = 30 * second
const maxProbeMillis = hour

/** A breaker that lets everything through. */
export const closedBreaker: Breaker = { failures: 0, probeAt: null }

/** Whether only probes may go out. */
export const isOpen = (breaker: Breaker): boolean => breaker.failures >= breakerThreshold

/** How many requests may be in flight to one endpoint, and in all, in one process. */
export const maxInFlightPerEndpoint = 16
export const maxInFlight = 512

/** An endpoint that answers later than this, or not at all, is slow until it answers in time. */
export const slowMillis = 1_000
/** How many requests may be in flight to slow endpoints together, so that the others always have as many places. */
export const maxSlowInFlight = maxInFlight / 2
/** An endpoint's k-th place is given only while this times k are free, so that some are left for whoever comes next. */
export const placesPerShare = 8

/** How many attempts an endpoint may be given now; `probe` tells that it is the one probe of an open breaker. */
export const allowance = (
  breaker: Breaker,
  input: { readonly inFlight: number; readonly perEndpoint: number; readonly now: number }
): { readonly attempts: number; readonly probe: boolean } => {
  if (!isOpen(breaker)) return { attempts: Math.max(0, input.perEndpoint - input.inFlight), probe: false }
  const due = input.inFlight === 0 && (breaker.probeAt ?? 0) <= input.now
  return { attempts: due ? 1 : 0, probe: due }
}

/**
 * How many attempts each may make, if it has that many. Places go round by round, the emptiest first, and an endpoint's k-th only
 * while {@link placesPerShare} times k are free: the fuller it gets the fewer each may hold, so that there is one left for
 * whoever comes. Slow endpoints share their part of the places in the same way. Who gets none is left out.
 */
export const sharePlaces = <
  A extends { readonly inFlight: number; readonly slow: boolean; readonly attempts: number }
>(turns: ReadonlyArray<A>, free: { readonly limit: number; readonly slowLimit: number }): ReadonlyArray<A> => {
  const given = turns.map(() => 0)
  let { limit, slowLimit } = free
  for (let nth = 1; nth <= maxInFlightPerEndpoint; nth++) {
    for (const [index, { attempts, inFlight, slow }] of turns.entries()) {
      const had = given[index] ?? 0
      if (had === attempts || inFlight + had + 1 !== nth) continue
      if (!isFree(limit, nth) || (slow && !isFree(slowLimit, nth))) continue
      given[index] = had + 1
      limit--
      if (slow) slowLimit--
    }
  }
  return turns.map((turn, index) => ({ ...turn, attempts: given[index] ?? 0 })).filter(({ attempts }) => attempts > 0)
}

const isFree = (places: number, nth: number) => places > 0 && (nth === 1 || nth * placesPerShare <= places)

/**
 * How long the breaker waits for its next probe after `failedProbes`: 30 s doubling to 1 h, within the schedule's
 * longest delay.
 */
export const probeDelayMillis = (delays: RetryDelays, failedProbes: number): number =>
  Math.min(firstProbeMillis * 2 ** Math.min(failedProbes, 30), maxProbeMillis, Math.max(...delays))

/**
 * The breaker after an attempt. Any success closes it. Of an open one only the failures of probes count, so that what
 * was in flight when it opened does not make the pause longer.
 */
export const breakerAfter = (
  breaker: Breaker,
  attempt: { readonly success: boolean; readonly probe: boolean; readonly endedAt: number },
  delays: RetryDelays
): Breaker => {
  if (attempt.success) return closedBreaker
  if (isOpen(breaker) && !attempt.probe) return breaker
  const failures = breaker.failures + 1
  return failures < breakerThreshold
    ? { failures, probeAt: null }
    : { failures, probeAt: attempt.endedAt + probeDelayMillis(delays, failures - breakerThreshold) }
}
