/**
 * Retries of requests: after 503 and 429 (contract, section 7), and after a lost response, since a repeat of the same
 * request changes nothing (contract, section 4), but for a rotation, a ping, a redelivery and the start of a replay.
 */
import { Clock, Context, Effect, Random, Result, Schema } from "effect"
import { FetchHttpClient, HttpClientError, type HttpClientRequest, type HttpClientResponse } from "effect/http"

/** Bounds of a call. The client retries every request within them, also the few that are not idempotent. */
export interface Timeouts {
  /** The longest time of one call, with all its attempts and pauses; 30,000 by default. */
  readonly totalMillis?: number
  /** The longest time of one attempt, until the last byte of its response; 10,000 by default. */
  readonly attemptMillis?: number
}

/**
 * Attempts of a call whose response is lost. The service keeps four replaced signing secrets: a fifth rotation of the
 * same call could drop one that is still in use. What a rotation gets with 503 may be done, too.
 */
export const maxLostResponses = 4

const firstPauseMillis = 200
const maxPauseMillis = 5_000

/** What matters of an operation to its retries. */
interface Operation {
  readonly workMillis: number
  readonly isRotation?: boolean
}

type Attempt = Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>

/**
 * Sends the request until the response is neither 429 nor 503. A lost connection, a timeout and a gateway's 502 and 504
 * count as lost responses. Pauses double from 0.2 s to 5 s, each times a random factor from 0.5 to 1. A pause is never
 * shorter than `Retry-After`, and up to a quarter longer, so that many clients do not return at the same time.
 *
 * Returns the last response, or fails with the last error, where the next pause would end after the call's timeout.
 * `workMillis` is the time that the operation itself may take; it is added to both timeouts. Where an operation
 * `isRotation`, 503 counts as a lost response.
 */
export const sendWithRetries = Effect.fnUntraced(function*(
  request: HttpClientRequest.HttpClientRequest,
  next: (request: HttpClientRequest.HttpClientRequest) => Attempt,
  { attemptMillis = 10_000, isRotation = false, totalMillis = 30_000, workMillis }: Timeouts & Operation
): Effect.fn.Return<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError> {
  const endsAt = (yield* elapsedMillis) + totalMillis + workMillis
  let lost = 0
  for (let attempt = 0;; attempt++) {
    const leftMillis = endsAt - (yield* elapsedMillis)
    const timeoutMillis = Math.min(attemptMillis + workMillis, leftMillis)
    const outcome = yield* Effect.result(attemptWithBody(request, next, timeoutMillis))
    const kind = kindOf(outcome, isRotation)
    if (kind === "final" || kind === "lost" && ++lost >= maxLostResponses) return yield* Effect.fromResult(outcome)
    const pauseMillis = Math.max(yield* backoff(attempt), yield* retryAfterMillis(outcome))
    if ((yield* elapsedMillis) + pauseMillis >= endsAt) return yield* Effect.fromResult(outcome)
    yield* Effect.sleep(pauseMillis)
  }
})

/** Milliseconds by a clock that no one sets. */
const elapsedMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))

/**
 * One attempt including the response's body, during which a connection can break. The response caches its body. No
 * redirect is followed: `fetch` would take the API key along.
 */
const attemptWithBody = (
  request: HttpClientRequest.HttpClientRequest,
  next: (request: HttpClientRequest.HttpClientRequest) => Attempt,
  timeoutMillis: number
): Attempt =>
  Effect.tap(next(request), (response) => response.text).pipe(
    Effect.updateContext((context: Context.Context<never>) =>
      Context.add(context, FetchHttpClient.RequestInit, {
        ...Context.getOrUndefined(context, FetchHttpClient.RequestInit),
        redirect: "manual"
      })),
    Effect.timeoutOrElse({
      duration: timeoutMillis,
      orElse: () => {
        const description = `no response within ${timeoutMillis} ms`
        return Effect.fail(
          new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, description }) })
        )
      }
    })
  )

type RequestResult = Result.Result<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>

const kindOf = (outcome: RequestResult, isRotation: boolean): "final" | "retry" | "lost" => {
  if (Result.isFailure(outcome)) return isLost(outcome.failure) ? "lost" : "final"
  const { status } = outcome.success
  if (status === 429 || status === 503 && !isRotation) return "retry"
  return status >= 502 && status <= 504 ? "lost" : "final"
}

/** The connection failed before the end of the body. Nothing is decoded yet: a `DecodeError` is a broken body. */
const isLost = ({ reason }: HttpClientError.HttpClientError): boolean =>
  reason._tag === "TransportError" || reason._tag === "DecodeError"

const backoff = (attempt: number) =>
  Effect.map(Random.nextBetween(0.5, 1), (factor) =>
    Math.min(firstPauseMillis * 2 ** Math.min(attempt, 16), maxPauseMillis) * factor)

/** The pause that `Retry-After` demands, or the body where a proxy has removed the header; 0 without either. */
const retryAfterMillis = Effect.fnUntraced(function*(outcome: RequestResult) {
  if (Result.isFailure(outcome)) return 0
  const { headers, text } = outcome.success
  const header = headers["retry-after"] ?? ""
  const seconds = /^\d{1,6}$/.test(header) ? Number(header) : yield* text.pipe(
    Effect.flatMap(decodeRetryAfter),
    Effect.map(({ retryAfterSeconds }) => retryAfterSeconds),
    Effect.orElseSucceed(() => 0)
  )
  return seconds * 1_000 * (yield* Random.nextBetween(1, 1.25))
})

const decodeRetryAfter = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ retryAfterSeconds: Schema.Int }))
)
