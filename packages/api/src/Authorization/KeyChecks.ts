import { ApiKeys, type FoundKey, type KeyUse } from "@card-rewards/core/ApiKeys"
import { Unauthorized, Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Context, Deferred, Duration, Effect, Exit, Layer, Option, Redacted } from "effect"
import { hash } from "node:crypto"

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
  /** The key if it was checked a short while ago, so that nothing needs to be asked now. */
  readonly fresh: (apiKey: string, nowMillis: number) => FoundKey | undefined
}>()("@card-rewards/api/KeyChecks") {
  static readonly layer: Layer.Layer<KeyChecks, never, ApiKeys> = Layer.effect(
    KeyChecks,
    Effect.suspend(() => make)
  )
}

interface Remembered {
  readonly key: FoundKey
  readonly checkedAt: number
  checkAgainAt: number
}

const make = Effect.gen(function*() {
  const apiKeys = yield* ApiKeys
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

  const lookUp = (id: string) =>
    Effect.suspend(() => {
      const running = underWay.get(id)
      if (running !== undefined) return awaitAnswer(running)
      const answer = Deferred.makeUnsafe<Option.Option<FoundKey>, Unavailable>()
      underWay.set(id, answer)
      return apiKeys.find(Buffer.from(id, "hex")).pipe(
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

  /** What the database says of a key that is not known freshly; while it is away, what it said within the last hour. */
  const checkAgain = (id: string, known: Remembered | undefined, now: number): Effect.Effect<
    FoundKey,
    Unauthorized | Unavailable
  > => {
    const found = Effect.flatMap(lookUp(id), usable)
    return known === undefined || now >= known.checkedAt + acceptedWhileAwayMillis
      ? found
      : found.pipe(
        Effect.timeoutOrElse({
          duration: Duration.millis(patienceMillis),
          orElse: () => Effect.succeed(known.key)
        }),
        Effect.catchTag("Unavailable", () => Effect.succeed(known.key))
      )
  }

  const freshById = (id: string, now: number): FoundKey | undefined => {
    const known = remembered.get(id)
    if (known === undefined || now >= Math.min(known.checkAgainAt, known.checkedAt + acceptedWhileAwayMillis)) return undefined
    remembered.delete(id)
    remembered.set(id, known)
    return markUsed(known.key, now)
  }

  /** Most requests end at the remembered key, so that way is short. */
  const check = (apiKey: Redacted.Redacted) =>
    Effect.clockWith((clock) => {
      const id = idOf(Redacted.value(apiKey))
      const now = clock.currentTimeMillisUnsafe()
      const fresh = freshById(id, now)
      return fresh === undefined
        ? Effect.map(checkAgain(id, remembered.get(id), now), (key) => markUsed(key, now))
        : Effect.succeed(fresh)
    })

  return KeyChecks.of({ check, fresh: (apiKey, now) => freshById(idOf(apiKey), now) })
})

const idOf = (apiKey: string): string => hash("sha256", apiKey, "hex")

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
  return (key: FoundKey, at: number): FoundKey => {
    const id = `${key.integratorId}\0${key.name}`
    const minute = Math.floor(at / minuteMillis)
    if (marked.get(id) === minute) return key
    marked.delete(id)
    marked.set(id, minute)
    waiting.set(id, { integratorId: key.integratorId, name: key.name, at })
    if (marked.size > maxRememberedKeys) forgetOldest(marked)
    return key
  }
})

/** A Map keeps the order of insertion: its first key is the one unused for longest. */
const forgetOldest = (map: Map<string, unknown>): void => {
  for (const oldest of map.keys()) {
    map.delete(oldest)
    return
  }
}
