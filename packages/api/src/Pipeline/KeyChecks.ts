import { ApiKeys, type FoundKey } from "@card-rewards/core/ApiKeys"
import { type RateLimited, Unauthorized, Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Context, Deferred, Duration, Effect, Exit, Layer, Option } from "effect"
import { LRUCache } from "lru-cache"
import { hash } from "node:crypto"
import * as KeyUses from "./KeyUses.ts"
import { RateLimit, tooMany } from "./RateLimit.ts"

/** How long a key that was looked up is accepted without another look-up (decisions, section 8). */
export const freshMillis = 30_000

/** How long a key that was looked up is accepted while the database is away (contract, section 5.4). */
export const acceptedWhileAwayMillis = 3_600_000

/** Keys that are cached, at most; the least recently used goes first. */
export const maxCachedKeys = 10_000

/** While the database is away, a cached key is looked up again after this time only. */
const retryAfterMillis = 1_000

/** How long a request with a cached key waits for its look-up, so that its handler still answers within 5 s. */
const cachedKeyTimeoutMillis = 400

/** How long any other request waits. An abandoned query may take long to end, and its answer is not needed. */
const lookUpTimeoutMillis = 4_600

type Refusal = Unauthorized | RateLimited | Unavailable

/**
 * Checks API keys: `check` looks keys up, `fresh` only reads the cache. Unknown and revoked keys are never cached;
 * requests with the same key share one look-up, and look-ups of different clients take turns. A client's failed
 * authentications are counted before the look-up; beyond the limit they get 429, while a valid key is accepted.
 */
export class KeyChecks extends Context.Service<KeyChecks, {
  /** `client` is what failures are counted under, see {@link clientOf}. */
  readonly check: (apiKey: string, client: string) => Effect.Effect<FoundKey, Refusal>
  /** The integrator of a key that was looked up before, however long ago. */
  readonly integratorOf: (apiKey: string) => IntegratorId | undefined
  /** The key, if it was looked up less than 30 s ago. */
  readonly fresh: (apiKey: string, nowMillis: number) => FoundKey | undefined
}>()("@card-rewards/api/KeyChecks") {
  static readonly layer: Layer.Layer<KeyChecks, never, ApiKeys | RateLimit> = Layer.effect(
    KeyChecks,
    Effect.suspend(() => make)
  )
}

interface Cached {
  readonly key: FoundKey
  readonly checkedAt: number
  checkAgainAt: number
}

const make = Effect.gen(function*() {
  const apiKeys = yield* ApiKeys
  const limits = yield* RateLimit
  const scope = yield* Effect.scope
  const cache = new LRUCache<string, Cached>({ max: maxCachedKeys })
  const lookUps = new Map<string, Deferred.Deferred<Option.Option<FoundKey>, Unavailable>>()
  const recordUse = yield* KeyUses.make(apiKeys, maxCachedKeys)

  const completeLookUp = (id: string, exit: Exit.Exit<Option.Option<FoundKey>, Unavailable>, now: number) => {
    lookUps.delete(id)
    if (Exit.isSuccess(exit)) {
      const key = Option.getOrUndefined(exit.value)
      if (key === undefined || key.revoked) cache.delete(id)
      else cache.set(id, { key, checkedAt: now, checkAgainAt: now + freshMillis })
    } else {
      const stale = cache.peek(id)
      if (stale !== undefined) stale.checkAgainAt = now + retryAfterMillis
    }
  }

  const lookUp = (id: string, client: string) =>
    Effect.suspend(() => {
      const running = lookUps.get(id)
      if (running !== undefined) return awaitAnswer(running)
      const answer = Deferred.makeUnsafe<Option.Option<FoundKey>, Unavailable>()
      lookUps.set(id, answer)
      return apiKeys.find(Buffer.from(id, "hex"), client).pipe(
        Effect.onExit((exit) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            completeLookUp(id, exit, now)
            return Deferred.done(answer, exit)
          })
        ),
        Effect.forkIn(scope),
        Effect.andThen(awaitAnswer(answer))
      )
    })

  /** 401, or 429 where the client has failed too often. */
  const refuse = (client: string, now: number): Effect.Effect<never, Unauthorized | RateLimited> => {
    const failure = limits.takeFailure(client, now)
    return Effect.fail(failure.allowed ? unauthorized : tooMany(failure))
  }

  const checkUnknown = (id: string, client: string, now: number) => {
    const failure = limits.takeFailure(client, now)
    const forgive = Effect.sync(() => {
      if (failure.allowed) limits.forgiveFailure(client, now)
    })
    return lookUp(id, client).pipe(
      Effect.tapError(() => forgive),
      Effect.map(Option.filter((key) => !key.revoked)),
      Effect.flatMap((found): Effect.Effect<FoundKey, Unauthorized | RateLimited> =>
        Option.isSome(found)
          ? Effect.as(forgive, found.value)
          : Effect.fail(failure.allowed ? unauthorized : tooMany(failure)))
    )
  }

  /** What the database says of a cached key; while it is away, what it said within the last hour. */
  const checkCached = (id: string, { key }: Cached, client: string, now: number) =>
    lookUp(id, client).pipe(
      Effect.timeoutOrElse({
        duration: Duration.millis(cachedKeyTimeoutMillis),
        orElse: () => Effect.succeedSome(key)
      }),
      Effect.catchTag("Unavailable", () => Effect.succeedSome(key)),
      Effect.flatMap((found) =>
        Option.isSome(found) && !found.value.revoked ? Effect.succeed(found.value) : refuse(client, now))
    )

  const fresh = (apiKey: string, now: number): FoundKey | undefined => {
    const cached = cache.get(idOf(apiKey))
    if (cached === undefined || now >= Math.min(cached.checkAgainAt, acceptedUntil(cached))) return undefined
    return recordUse(cached.key, now)
  }

  const check = (apiKey: string, client: string) =>
    Effect.clockWith((clock): Effect.Effect<FoundKey, Refusal> => {
      const now = clock.currentTimeMillisUnsafe()
      if (!wellFormed.test(apiKey)) return refuse(client, now)
      const id = idOf(apiKey)
      const cached = cache.get(id)
      const checked = cached === undefined || now >= acceptedUntil(cached)
        ? checkUnknown(id, client, now)
        : checkCached(id, cached, client, now)
      return Effect.map(checked, (key) => recordUse(key, now))
    })

    const integratorOf = (apiKey: string) => cache.peek(idOf(apiKey))?.key.integratorId

  return KeyChecks.of({ check, fresh, integratorOf })
})

const wellFormed = /^service_sk_(?:sandbox|live)_[0-9a-f]{64}$/

const acceptedUntil = ({ checkedAt }: Cached): number => checkedAt + acceptedWhileAwayMillis

const idOf = (apiKey: string): string => hash("sha256", apiKey, "hex")

const awaitAnswer = (answer: Deferred.Deferred<Option.Option<FoundKey>, Unavailable>) =>
  Deferred.await(answer).pipe(
    Effect.timeoutOrElse({
      duration: Duration.millis(lookUpTimeoutMillis),
      orElse: () =>
        Effect.fail(new Unavailable({ message: "The key cannot be checked now; send the same request again" }))
    })
  )

/** 401, the same for a missing, an unknown and a revoked key. */
const unauthorized = new Unauthorized({ message: "The x-api-key header holds no valid API key" })
