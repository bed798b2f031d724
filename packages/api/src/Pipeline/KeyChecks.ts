import type { FoundKey } from "@card-rewards/core/ApiKeys"
import { apiKeyForm } from "@card-rewards/domain/ApiKey"
import { type RateLimited, Unauthorized, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { type Clock, Context, Duration, Effect, Layer, Option } from "effect"
import { hash } from "node:crypto"
import { Cells } from "../Cells.ts"
import * as KeyCache from "./KeyCache.ts"
import * as KeyUses from "./KeyUses.ts"
import { type Admission, RateLimit, tooMany } from "./RateLimit.ts"
import { noteCell } from "./RequestCell.ts"

/** How long a request with a cached key waits for its look-up, so that its handler still answers within 5 s. */
const cachedKeyTimeoutMillis = 400

type Refusal = Unauthorized | RateLimited | Unavailable

/**
 * Checks API keys: `check` looks keys up, the others only read the cache. A client's failed authentications are counted
 * before the look-up; beyond the limit further ones get 429, while a valid key is accepted.
 */
export class KeyChecks extends Context.Service<KeyChecks, {
  /** `client` is what failures are counted under, see {@link clientOf}. */
  readonly check: (apiKey: string, client: string) => Effect.Effect<FoundKey, Refusal>
  /** The key, if it need not be looked up now. */
  readonly fresh: (apiKey: string, clock: Clock.Clock) => FoundKey | undefined
  /** The integrator of a key that was looked up before, however long ago. */
  readonly integratorOf: (apiKey: string) => IntegratorId | undefined
}>()("@card-rewards/api/KeyChecks") {
  static readonly layer: Layer.Layer<KeyChecks, never, Cells | RateLimit> = Layer.effect(
    KeyChecks,
    Effect.suspend(() => make)
  )
}

const make = Effect.gen(function*() {
  const limits = yield* RateLimit
  const cache = yield* KeyCache.make
  const cells = yield* Cells
  const recordUse = yield* KeyUses.make(cells, KeyCache.maxCachedKeys)

  /** The cell in which a look-up has failed is the request's, in the log and in the metrics. */
  const noteCellOf = (slot: number) =>
    Effect.withFiber((request) => Effect.sync(() => noteCell(request, cells.of(slot)?.cell)))

  const checkUnknown = (id: string, slot: number, client: string, now: number): Effect.Effect<FoundKey, Refusal> => {
    const failure = limits.takeFailure(client, now)
    const forgive = Effect.sync(() => {
      if (failure.allowed) limits.forgiveFailure(client, now)
    })
    return cache.lookUp(id, slot, client).pipe(
      Effect.onError(() => Effect.andThen(forgive, noteCellOf(slot))),
      Effect.flatMap((found) => Option.isSome(found) ? Effect.as(forgive, found.value) : refuse(failure))
    )
  }

  /** What the database says of a cached key; while it is away, what it said within the last hour. */
  const checkCached = (id: string, slot: number, { key }: KeyCache.Cached, client: string, now: number) =>
    cache.lookUp(id, slot, client).pipe(
      Effect.timeoutOrElse({
        duration: Duration.millis(cachedKeyTimeoutMillis),
        orElse: () => Effect.succeedSome(key)
      }),
      Effect.catchTag("Unavailable", () => Effect.succeedSome(key)),
      Effect.flatMap((found) =>
        Option.isSome(found) ? Effect.succeed(found.value) : refuse(limits.takeFailure(client, now)))
    )

  return KeyChecks.of({
    fresh: (apiKey, clock) => {
      const now = clock.monotonicTimeNanosUnsafe()
      const cached = cache.get(idOf(apiKey), now)
      return cached === undefined || now >= cached.checkAgainNanos
        ? undefined
        : recordUse(cached.key, clock.currentTimeMillisUnsafe())
    },
    check: (apiKey, client) =>
      Effect.clockWith((clock): Effect.Effect<FoundKey, Refusal> => {
        const now = clock.currentTimeMillisUnsafe()
        if (!apiKeyForm.test(apiKey)) return refuse(limits.takeFailure(client, now))
        const [id, slot] = [idOf(apiKey), slotIn(apiKey)]
        const cached = cache.get(id, clock.monotonicTimeNanosUnsafe())
        const checked = cached === undefined
          ? checkUnknown(id, slot, client, now)
          : checkCached(id, slot, cached, client, now)
        return Effect.map(checked, (key) => recordUse(key, now))
      }),
    integratorOf: (apiKey) => cache.peek(idOf(apiKey))?.key.integratorId
  })
})

/** The slot of a well-formed key's integrator: the first byte of 32. */
const slotIn = (apiKey: string): number => Number.parseInt(apiKey.slice(-64, -62), 16)

const idOf = (apiKey: string): string => hash("sha256", apiKey, "hex")

/** 401, or 429 where the client has failed too often. */
const refuse = (failure: Admission): Effect.Effect<never, Unauthorized | RateLimited> =>
  Effect.fail(failure.allowed ? unauthorized : tooMany(failure))

/** 401, the same for a missing, an unknown and a revoked key. */
const unauthorized = new Unauthorized({ message: "The x-api-key header holds no valid API key" })
