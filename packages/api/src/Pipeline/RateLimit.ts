import type { IntegratorId } from "@card-rewards/domain/Ids"
import { RateLimited } from "@card-rewards/domain/Errors"
import { maxBatchEvents } from "@card-rewards/domain/SpendEventBatch"
import { Context, Effect, type Fiber, Layer } from "effect"
import { HttpEffect, HttpServerResponse } from "effect/http"
import * as TokenBuckets from "./TokenBuckets.ts"

/** What a request counts as: spend events, reads, everything else. */
export type RateClass = "ingest" | "read" | "manage"

/** A bucket's refill and size, or no limit at all. */
export type Limit = { readonly perSecond: number; readonly burst: number } | "off"

/** The configured limits; `auth` is for failed authentications. */
export type Limits = Readonly<Record<RateClass | "auth", Limit>>

/** The outcome of one request: whether it may go on, and what its answer's headers say. */
export interface Admission {
  readonly allowed: boolean
  /** Whole seconds until a request would be allowed, at least 1. */
  readonly retryAfterSeconds: number
  /** `RateLimit-Policy` and `RateLimit`; none where the limit is off. */
  readonly headers: Readonly<Record<string, string>> | undefined
}

/** Clients whose failed authentications are counted, at most (decisions, section 8). */
const maxAddressBuckets = 10_000

/** Integrators whose requests are counted, at most; the one unseen for longest is forgotten, and begins anew. */
const maxIntegratorBuckets = 10_000

/**
 * Token buckets of this process (decisions, section 8): per integrator and class, and per client address for failed
 * authentications.
 */
export class RateLimit extends Context.Service<RateLimit, {
  /** Takes tokens of the integrator's class, one by default. */
  readonly take: (rateClass: RateClass, integratorId: IntegratorId, nowMillis: number, tokens?: number) => Admission
  /** Takes tokens instead of those that the request has taken so far, where there are enough, and otherwise none. */
  readonly retake: (
    rateClass: RateClass,
    integratorId: IntegratorId,
    tokens: { readonly taken: number; readonly wanted: number },
    nowMillis: number
  ) => Admission
  /** What the headers say, without taking a token. */
  readonly peek: (rateClass: RateClass, integratorId: IntegratorId, nowMillis: number) => Admission
  /** Counts a failed authentication of a client, before its key is looked up. */
  readonly takeFailure: (client: string, nowMillis: number) => Admission
  /** Takes the count of {@link takeFailure} back: the key was valid. */
  readonly forgiveFailure: (client: string, nowMillis: number) => void
}>()("@card-rewards/api/RateLimit") {
  static readonly layer = (limits: Limits): Layer.Layer<RateLimit> =>
    Layer.sync(RateLimit, () => {
      const classes = {
        ingest: admission("ingest", limits.ingest, maxIntegratorBuckets),
        read: admission("read", limits.read, maxIntegratorBuckets),
        manage: admission("manage", limits.manage, maxIntegratorBuckets)
      }
      const failures = admission("auth", limits.auth, maxAddressBuckets)
      return RateLimit.of({
        take: (rateClass, integratorId, now, tokens = 1) => classes[rateClass](integratorId, tokens, now),
        retake: (rateClass, integratorId, { taken, wanted }, now) => {
          classes[rateClass](integratorId, -taken, now)
          return classes[rateClass](integratorId, wanted, now)
        },
        peek: (rateClass, integratorId, now) => classes[rateClass](integratorId, 0, now),
        takeFailure: (client, now) => failures(client, 1, now),
        forgiveFailure: (client, now) => void failures(client, -1, now)
      })
    })
}

/** A batch takes one token for each of these, until its events are counted. */
const bytesPerToken = 4_096

/** The tokens that a batch takes until its events are counted, so that a large body is never cheap. */
export const tokensOfBody = (bytes: number): number =>
  Math.min(Math.max(1, Math.ceil(bytes / bytesPerToken)), maxBatchEvents)

/** What a policy's quota is counted in: after this time the whole of it is there again. */
const windowSeconds = 1

const unlimited: Admission = { allowed: true, retryAfterSeconds: 1, headers: undefined }

const admission = (name: string, limit: Limit, maxBuckets: number) => {
  if (limit === "off") return () => unlimited
  const buckets = TokenBuckets.make({ ...limit, maxBuckets })
  return (key: string, tokens: number, now: number): Admission => {
    const { allowed, left, nextAfterMillis } = buckets.take(key, tokens, now)
    // what a burst allows beyond the policy's quota is not promised
    const quotaLeft = allowed ? Math.max(0, Math.min(left + tokens, limit.perSecond) - tokens) : 0
    return {
      allowed,
      retryAfterSeconds: Math.max(1, Math.ceil(nextAfterMillis / 1_000)),
      headers: {
        "ratelimit-policy": `"${name}";q=${limit.perSecond};w=${windowSeconds}`,
        ratelimit: `"${name}";r=${quotaLeft};t=${windowSeconds}`
      }
    }
  }
}

/** 429 with the seconds after which a request would be allowed. */
export const tooMany = ({ retryAfterSeconds }: Admission) =>
  new RateLimited({ message: `Too many requests; come again in ${retryAfterSeconds} s`, retryAfterSeconds })

/** Shows the rate limit in the request's answer, whatever that will be; the last one shown counts. */
export const show = ({ headers }: Admission, request: Fiber.Fiber<unknown, unknown>): void => {
  if (headers === undefined) return
  HttpEffect.appendPreResponseHandlerUnsafe(request.context, (_, response) =>
    Effect.succeed(HttpServerResponse.setHeaders(response, headers)))
}
