import { Schema } from "effect"
import { WebhookEventKind } from "./Event.ts"
import { text } from "./Ids.ts"
import { dayMillis, Timestamp } from "./Time.ts"

/** The state of a delivery: `pending` waits for its next attempt, the others are final. */
export const DeliveryState = Schema.Literals(["pending", "delivered", "exhausted", "cancelled"])
export type DeliveryState = typeof DeliveryState.Type

/** An event's id in a path. */
export const EventId = text(1, 128)

/** One attempt: the status of the receiver's response, or the error that prevented one. */
export const DeliveryAttempt = Schema.Struct({
  at: Timestamp,
  durationMillis: Schema.Int,
  status: Schema.optionalKey(Schema.Int),
  error: Schema.optionalKey(Schema.String)
}).annotate({
  identifier: "DeliveryAttempt",
  description: "One attempt: the `status` of the receiver's response, or the `error` that prevented one."
})

/** The delivery of an event to an endpoint (decisions, section 9). Its times are real, not those of a sandbox clock. */
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
  description: "The delivery of an event to the endpoint. `nextAttemptAt` is present while it is pending."
})
export type Delivery = typeof Delivery.Type

/** Deliveries, newest first. */
export const DeliveryPage = Schema.Struct({
  deliveries: Schema.Array(Delivery),
  next: Schema.optionalKey(Schema.String)
}).annotate({ identifier: "DeliveryPage", description: "Deliveries, newest first." })
export type DeliveryPage = typeof DeliveryPage.Type

/**
 * Delays after the first, second, … failed attempt, in milliseconds. A delivery has one attempt more than there are
 * delays; then it is `exhausted`.
 */
export type RetryDelays = readonly [number, ...ReadonlyArray<number>]

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** The delays after failed attempts (decisions, section 7): 13 attempts in about 76 hours. */
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

/** Parses `300ms,5s,2m,1h`: 1 to 50 delays, each of 1 ms to 7 days. Undefined for any other text. */
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

/** The result of an attempt: the receiver's response, or the error that prevented one. */
export type AttemptResult =
  | { readonly status: number; readonly answer: string; readonly retryAfterSeconds?: number | undefined }
  | { readonly error: string }

/** Whether the status is 2xx. A redirect is a failure. */
export const isSuccess = (result: AttemptResult): boolean =>
  "status" in result && result.status >= 200 && result.status < 300

/** The state of a delivery after an attempt; `nextAttemptAt` in milliseconds. */
export type AfterAttempt =
  | { readonly state: "delivered" | "exhausted" }
  | { readonly state: "pending"; readonly nextAttemptAt: number }

/**
 * Returns the state after attempt number `attempt` (from 1) that ended at `endedAt` (milliseconds). `jitter` is a
 * random number in {@link jitterRange}. `Retry-After` of 429 and 503 can extend the delay, to at most twice the
 * schedule's.
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
  const requested = Math.min(retryAfterMillis(input.result), 2 * scheduled)
  return { state: "pending", nextAttemptAt: input.endedAt + Math.round(Math.max(scheduled * input.jitter, requested)) }
}

const retryAfterMillis = (result: AttemptResult): number =>
  "status" in result && (result.status === 429 || result.status === 503) ? (result.retryAfterSeconds ?? 0) * second : 0

/** The circuit breaker of an endpoint. Above {@link breakerThreshold}, `failures` counts failed probes. */
export interface Breaker {
  /** Consecutive failures. */
  readonly failures: number
  /** When the next probe may be sent, in milliseconds; null unless the breaker is open. */
  readonly probeAt: number | null
}

/** Consecutive failures that open the breaker. */
export const breakerThreshold = 10
const firstProbeMillis = 30 * second
const maxProbeMillis = hour

/** The breaker of an endpoint without failures. */
export const closedBreaker: Breaker = { failures: 0, probeAt: null }

/** Whether the breaker is open: only probes may be sent. */
export const isOpen = (breaker: Breaker): boolean => breaker.failures >= breakerThreshold

/** The longest time of an attempt (decisions, section 7). */
export const attemptTimeoutMillis = 15 * second

/** The maximum number of bytes of a response's body that are read and kept (decisions, section 7). */
export const maxAnswerBytes = 4_096

/** The maximum number of requests in flight of one process to one endpoint. */
export const maxInFlightPerEndpoint = 16

/** How many more attempts an endpoint may have in flight; with `probe` it is the one probe of an open breaker. */
export const allowance = (
  breaker: Breaker,
  input: { readonly inFlight: number; readonly now: number }
): { readonly attempts: number; readonly probe: boolean } => {
  if (!isOpen(breaker)) return { attempts: Math.max(0, maxInFlightPerEndpoint - input.inFlight), probe: false }
  const isDue = input.inFlight === 0 && (breaker.probeAt ?? 0) <= input.now
  return { attempts: isDue ? 1 : 0, probe: isDue }
}

/**
 * The delay of the next probe after `failedProbes`, in milliseconds: it doubles from 30 s to 1 h, and is never longer
 * than the longest delay of the schedule.
 */
export const probeDelayMillis = (delays: RetryDelays, failedProbes: number): number =>
  Math.min(firstProbeMillis * 2 ** Math.min(failedProbes, 30), maxProbeMillis, Math.max(...delays))

/**
 * Returns the breaker after an attempt. A success closes it. While it is open only failed probes count, so that
 * attempts which were in flight when it opened do not delay the next probe.
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
