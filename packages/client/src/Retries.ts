/** When a request is sent again: the contract's section 7, and what its section 4 says of lost answers. */
import { Clock, Effect, Random, Result, Schema } from "effect"
import { HttpClientError, type HttpClientRequest, type HttpClientResponse } from "effect/http"

/** Every request may be repeated, so all of them are sent again, within these bounds. */
export interface Patience {
  /** How long one call may take with all its attempts and pauses; 30,000 when left out. */
  readonly totalMillis?: number
  /** How long one attempt may take to its answer's last byte; 10,000 when left out. */
  readonly attemptMillis?: number
}

/** Attempts whose answer is lost. Four replaced signing secrets are kept: a fifth rotation could drop one in use. */
export const maxLostAnswers = 4

const firstPauseMillis = 200
const maxPauseMillis = 5_000

type Attempt = Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>

/**
 * Sends the request until it is answered by other than 429 and 503. A lost connection, a time-out and a gateway's 502
 * and 504 count as lost answers. Pauses double from 0.2 s to 5 s, each times a random 0.5–1; what an answer asks for in
 * `Retry-After` is waited for in any case, and up to a quarter longer, so that many callers do not come back at once.
 *
 * Gives the last answer, or fails with the last error, where the next pause would end too late. `workMillis` is what
 * the operation itself may take, on top of the patience.
 */
export const repeated = Effect.fnUntraced(function*(
  request: HttpClientRequest.HttpClientRequest,
  next: (request: HttpClientRequest.HttpClientRequest) => Attempt,
  { attemptMillis = 10_000, totalMillis = 30_000, workMillis }: Patience & { readonly workMillis: number }
): Effect.fn.Return<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError> {
  const endsAt = (yield* Clock.currentTimeMillis) + totalMillis + workMillis
  let lost = 0
  for (let attempt = 0;; attempt++) {
    const leftMillis = endsAt - (yield* Clock.currentTimeMillis)
    const result = yield* Effect.result(whole(request, next, Math.min(attemptMillis + workMillis, leftMillis)))
    const kind = kindOf(result)
    if (kind === "final" || kind === "lost" && ++lost >= maxLostAnswers) return yield* Effect.fromResult(result)
    const pauseMillis = Math.max(yield* backoff(attempt), yield* askedMillis(result))
    if ((yield* Clock.currentTimeMillis) + pauseMillis >= endsAt) return yield* Effect.fromResult(result)
    yield* Effect.sleep(pauseMillis)
  }
})

/** One attempt with its body, since a connection can be lost in the middle of it. The response keeps what was read. */
const whole = (
  request: HttpClientRequest.HttpClientRequest,
  next: (request: HttpClientRequest.HttpClientRequest) => Attempt,
  timeoutMillis: number
): Attempt =>
  Effect.tap(next(request), (response) => response.text).pipe(Effect.timeoutOrElse({
    duration: timeoutMillis,
    orElse: () => {
      const description = `no answer within ${timeoutMillis} ms`
      return Effect.fail(
        new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, description }) })
      )
    }
  }))

type Outcome = Result.Result<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>

const kindOf = (outcome: Outcome): "final" | "again" | "lost" => {
  if (Result.isFailure(outcome)) return isLost(outcome.failure) ? "lost" : "final"
  const { status } = outcome.success
  return status === 429 || status === 503 ? "again" : status === 502 || status === 504 ? "lost" : "final"
}

/** No connection, or none to the end of the body: reading it fails as decoding, but nothing has been decoded yet. */
const isLost = ({ reason }: HttpClientError.HttpClientError): boolean =>
  reason._tag === "TransportError" || reason._tag === "DecodeError"

const backoff = (attempt: number) =>
  Effect.map(Random.nextBetween(0.5, 1), (factor) =>
    Math.min(firstPauseMillis * 2 ** Math.min(attempt, 16), maxPauseMillis) * factor)

/** What the answer asks for in `Retry-After`, or in the body where a proxy took the header away. */
const askedMillis = Effect.fnUntraced(function*(outcome: Outcome) {
  if (Result.isFailure(outcome)) return 0
  const { headers, text } = outcome.success
  const header = headers["retry-after"] ?? ""
  const seconds = /^\d{1,6}$/.test(header) ? Number(header) : yield* Effect.orElseSucceed(
    Effect.flatMap(text, decodeRetryAfter),
    () => ({ retryAfterSeconds: 0 })
  ).pipe(Effect.map(({ retryAfterSeconds }) => retryAfterSeconds))
  return seconds * 1_000 * (yield* Random.nextBetween(1, 1.25))
})

const decodeRetryAfter = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ retryAfterSeconds: Schema.Int }))
)
