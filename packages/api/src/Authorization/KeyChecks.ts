import { ApiKeys, type FoundKey, type KeyUse } from "@card-rewards/core/ApiKeys"
import * as Secrets from "@card-rewards/core/Secrets"
import { Unauthorized, Unavailable } from "@card-rewards/domain/Errors"
import { NodeCrypto } from "@effect/platform-node"
import { Clock, Context, Deferred, Duration, Effect, Exit, Layer, Option, type Redacted } from "effect"
import { Digest } from "effect/crypto"
import { Hex } from "effect/encoding"

/** How long a checked key is taken as it was (decisions, section 8). */
export const freshMillis = 30_000

/** How long a checked key is accepted while the database is away (contract, section 5.4). */
export const acceptedWhileAwayMillis = 3_600_000

/** Keys that are remembered, at most; the one unused for longest is forgotten first. */
export const maxRememberedKeys = 10_000

/** While the database is away, a remembered key is checked again after this time only. */
const retryAfterMillis = 1_000

/** How long a request with a remembered key waits for its check, so that its handler still answers within 5 s. */
const patienceMillis = 400

/** How long any other request waits: an abandoned query may take long to end, and its answer is not worth waiting for. */
const longPatienceMillis = 4_600

/** How often uses of keys are written. */
const markEveryMillis = 2_000

const minuteMillis = 60_000

/**
 * Whose key is it, and may it be used? Unknown and revoked keys are never remembered; several requests with one key
 * share one look-up.
 */
export class KeyChecks extends Context.Service<KeyChecks, {
  readonly check: (apiKey: Redacted.Redacted) => Effect.Effect<FoundKey, Unauthorized | Unavailable>
}>()("@card-rewards/api/KeyChecks") {
  static readonly layer: Layer.Layer<KeyChecks, never, ApiKeys> = Layer.effect(
    KeyChecks,
    Effect.suspend(() => make)
  ).pipe(Layer.provide(NodeCrypto.layerDigest))
}

interface Remembered {
  readonly key: FoundKey
  readonly checkedAt: number
  checkAgainAt: number
}

const make = Effect.gen(function*() {
  const apiKeys = yield* ApiKeys
  const digest = yield* Digest.Digest
  const scope = yield* Effect.scope
  const remembered = new Map<string, Remembered>()
  const underWay = new Map<string, Deferred.Deferred<Option.Option<FoundKey>, Unavailable>>()
  const markUsed = yield* makeMarks(apiKeys)

  const settle = (id: string, exit: Exit.Exit<Option.Option<FoundKey>, Unavailable>, now: number) => {
    underWay.delete(id)
    if (Exit.isSuccess(exit)) {
      remembered.delete(id)
      const key = Option.getOrUndefined(exit.value)
      if (key !== undefined && !key.revoked) {
        remembered.set(id, { key, checkedAt: now, checkAgainAt: now + freshMillis })
        if (remembered.size > maxRememberedKeys) forgetOldest(remembered)
      }
    } else {
      const stale = remembered.get(id)
      if (stale !== undefined) stale.checkAgainAt = now + retryAfterMillis
    }
  }

  const lookUp = (id: string, hash: Uint8Array) =>
    Effect.suspend(() => {
      const running = underWay.get(id)
      if (running !== undefined) return awaitAnswer(running)
      const answer = Deferred.makeUnsafe<Option.Option<FoundKey>, Unavailable>()
      underWay.set(id, answer)
      return apiKeys.find(hash).pipe(
        Effect.onExit((exit) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            settle(id, exit, now)
            return Deferred.done(answer, exit)
          })
        ),
        Effect.forkIn(scope),
        Effect.andThen(awaitAnswer(answer))
      )
    })

  const check = Effect.fnUntraced(function*(apiKey: Redacted.Redacted): Effect.fn.Return<
    FoundKey,
    Unauthorized | Unavailable
  > {
    const hash = yield* Secrets.hashApiKey(apiKey).pipe(Effect.provideService(Digest.Digest, digest))
    const id = Hex.encode(hash)
    const now = yield* Clock.currentTimeMillis
    const known = remembered.get(id)
    if (known === undefined) {
      return yield* usable(yield* lookUp(id, hash))
    }
    remembered.delete(id)
    remembered.set(id, known)
    if (now < known.checkAgainAt && now < known.checkedAt + acceptedWhileAwayMillis) return known.key
    if (now >= known.checkedAt + acceptedWhileAwayMillis) return yield* usable(yield* lookUp(id, hash))
    return yield* lookUp(id, hash).pipe(
      Effect.flatMap(usable),
      Effect.timeoutOrElse({
        duration: Duration.millis(patienceMillis),
        orElse: () => Effect.succeed(known.key)
      }),
      Effect.catchTag("Unavailable", () => Effect.succeed(known.key))
    )
  })

  return KeyChecks.of({
    check: (apiKey) => Effect.tap(check(apiKey), markUsed)
  })
})

const awaitAnswer = (answer: Deferred.Deferred<Option.Option<FoundKey>, Unavailable>) =>
  Deferred.await(answer).pipe(
    Effect.timeoutOrElse({
      duration: Duration.millis(longPatienceMillis),
      orElse: () => Effect.fail(new Unavailable({ message: "The key cannot be checked now; send the same request again" }))
    })
  )

const usable = (found: Option.Option<FoundKey>): Effect.Effect<FoundKey, Unauthorized> =>
  Option.isSome(found) && !found.value.revoked ? Effect.succeed(found.value) : Effect.fail(unauthorized())

/** 401, the same for a missing, an unknown and a revoked key. */
export const unauthorized = (): Unauthorized =>
  new Unauthorized({ message: "The x-api-key header holds no valid API key" })

/** Gathers the uses of keys, one per key and minute, and writes them in the background. */
const makeMarks = Effect.fnUntraced(function*(apiKeys: ApiKeys["Service"]) {
  const marked = new Map<string, number>()
  const waiting = new Map<string, KeyUse>()
  const write = Effect.suspend(() => {
    if (waiting.size === 0) return Effect.void
    const uses = [...waiting.values()]
    waiting.clear()
    return apiKeys.markUsed(uses).pipe(
      // lost while the database is away: the next minute's use is marked again
      Effect.catchCause((cause) => Effect.logDebug("Uses of keys were not recorded", cause))
    )
  })
  yield* Effect.addFinalizer(() => Effect.timeoutOption(write, Duration.seconds(1)))
  yield* write.pipe(Effect.delay(Duration.millis(markEveryMillis)), Effect.forever, Effect.forkScoped)
  return (key: FoundKey) =>
    Effect.map(Clock.currentTimeMillis, (at) => {
      const id = `${key.integratorId}\0${key.name}`
      const minute = Math.floor(at / minuteMillis)
      if (marked.get(id) === minute) return
      marked.delete(id)
      marked.set(id, minute)
      waiting.set(id, { integratorId: key.integratorId, name: key.name, at })
      if (marked.size > maxRememberedKeys) forgetOldest(marked)
    })
})

/** A Map keeps the order of insertion: its first key is the one unused for longest. */
const forgetOldest = (map: Map<string, unknown>): void => {
  for (const oldest of map.keys()) {
    map.delete(oldest)
    return
  }
}
