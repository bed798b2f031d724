/** Posts events to a local address, as the service posts them to a webhook endpoint (decisions, section 7). */
import { attemptTimeoutMillis, isSuccess, maxInFlightPerEndpoint } from "@card-rewards/domain/Delivery"
import { makeSigner, type PrepareHmac, type WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Array, Clock, Effect } from "effect"
import { createHmac } from "node:crypto"
import type { LoggedEvent } from "../EventLog.ts"
import { reasonOf } from "../Exit.ts"

/** Pauses before the second, third and fourth attempt, in milliseconds. After the fourth, the event is given up. */
export const retryPausesMillis: ReadonlyArray<number> = [500, 1_000, 2_000]

/** One attempt, and what comes after it. */
export interface ForwardedAttempt {
  readonly event: LoggedEvent
  /** 1 for the first attempt. */
  readonly attempt: number
  /** The status of the local server, or why there is none. */
  readonly answer: number | string
  readonly durationMillis: number
  readonly result: "delivered" | "retried" | "given up"
}

/** Where events are posted, with which secret they are signed, and what is done with the result of each attempt. */
export interface ForwarderOptions {
  readonly url: URL
  readonly secret: WebhookSecret
  readonly report: (attempt: ForwardedAttempt) => Effect.Effect<void>
}

/**
 * Forwards the events of a page: those of one reward one after another in their order, others in parallel, at most 16
 * requests at a time. An event is posted until it is answered 2xx, at most four times. Never fails.
 */
export const forwardPage = ({ report, secret, url }: ForwarderOptions) => {
  const sign = makeSigner([secret], hmac)
  const forward = Effect.fnUntraced(function*(event: LoggedEvent) {
    for (let attempt = 1;; attempt++) {
      const startedAt = yield* Clock.currentTimeMillis
      const timestampSeconds = Math.floor(startedAt / 1_000)
      const headers = sign({ eventId: event.id, body: event.body, timestampSeconds, attempt })
      const answer = yield* post(url, event.body, { ...commonHeaders, ...headers })
      const durationMillis = (yield* Clock.currentTimeMillis) - startedAt
      const pauseMillis = retryPausesMillis[attempt - 1]
      const isDelivered = typeof answer === "number" && isSuccess({ status: answer, answer: "" })
      const result = isDelivered ? "delivered" : pauseMillis === undefined ? "given up" : "retried"
      yield* report({ event, attempt, answer, durationMillis, result })
      if (isDelivered || pauseMillis === undefined) return
      yield* Effect.sleep(pauseMillis)
    }
  })
  return (events: ReadonlyArray<LoggedEvent>): Effect.Effect<void> => {
    const chains = Object.values(Array.groupBy(events, ({ id, rewardId }) => rewardId ?? id))
    return Effect.forEach(chains, (chain) => Effect.forEach(chain, forward, { discard: true }), {
      concurrency: maxInFlightPerEndpoint,
      discard: true
    })
  }
}

const commonHeaders = { "content-type": "application/json", "user-agent": "card-rewards/1" }

/** The status of the answer, or why there is none. A redirect is not followed, and the answer's body is not read. */
const post = (url: URL, body: string, headers: Readonly<Record<string, string>>): Effect.Effect<number | string> =>
  Effect.tryPromise(async (signal) => {
    const response = await fetch(url, { method: "POST", body, headers, redirect: "manual", signal })
    await response.body?.cancel()
    return response.status
  }).pipe(
    Effect.catch((error) => Effect.succeed(reasonOf(error))),
    Effect.timeoutOrElse({
      duration: attemptTimeoutMillis,
      orElse: () => Effect.succeed(`no answer within ${attemptTimeoutMillis / 1_000} s`)
    })
  )

const hmac: PrepareHmac = (key) => (start, body, encoding) =>
  createHmac("sha256", key).update(start).update(body).digest(encoding)
