import type { FoundKey } from "@card-rewards/core/ApiKeys"
import { notOwned } from "@card-rewards/core/Slots"
import { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Deferred, Duration, Effect, Exit, Option } from "effect"
import { LRUCache } from "lru-cache"
import { Cells } from "../Cells.ts"

/** How long a key that was looked up is accepted without another look-up (decisions, section 8). */
const freshMillis = 30_000

/** How long a key that was looked up is accepted while the database is away (contract, section 5.4). */
const acceptedWhileAwayMillis = 3_600_000

/** Keys that are cached, at most; the least recently used goes first. */
export const maxCachedKeys = 10_000

/** While the database is away, a cached key is looked up again after this time only. */
const retryAfterMillis = 1_000

/** How long a request waits for a look-up. An abandoned query may take long to end, and its answer is not needed. */
const lookUpTimeoutMillis = 4_600

/** A key as the database had it. Times are of the monotonic clock: the machine's time may be set back. */
export interface Cached {
  readonly key: FoundKey
  /** From then on it is to be looked up again. */
  readonly checkAgainNanos: bigint
  /** From then on it is unknown, also while the database is away. */
  readonly endsNanos: bigint
}

/** Nanoseconds after so many milliseconds. */
const after = (nanos: bigint, millis: number): bigint => nanos + BigInt(millis) * 1_000_000n

/**
 * The keys that were looked up within the last hour, and the look-ups under way, by the hash of the key in hex. Unknown
 * and revoked keys are never cached.
 */
export interface KeyCache {
  readonly get: (id: string, nowNanos: bigint) => Cached | undefined
  /** As {@link get}, however long ago the key was looked up, and without counting as a use. */
  readonly peek: (id: string) => Cached | undefined
  /**
   * The key, unless it is unknown or revoked. Requests with the same key share one look-up, in its slot's cell.
   * Look-ups of different clients take turns.
   */
  readonly lookUp: (id: string, slot: number, client: string) => Effect.Effect<Option.Option<FoundKey>, Unavailable>
}

/** A cache that looks keys up until its scope closes. */
export const make = Effect.gen(function*() {
  const cells = yield* Cells
  const scope = yield* Effect.scope
  const cache = new LRUCache<string, Cached>({ max: maxCachedKeys })
  const underWay = new Map<string, Deferred.Deferred<Option.Option<FoundKey>, Unavailable>>()

  const record = (id: string, exit: Exit.Exit<Option.Option<FoundKey>, Unavailable>, now: bigint) => {
    if (Exit.isSuccess(exit)) {
      if (Option.isNone(exit.value)) cache.delete(id)
      else {
        cache.set(id, {
          key: exit.value.value,
          checkAgainNanos: after(now, freshMillis),
          endsNanos: after(now, acceptedWhileAwayMillis)
        })
      }
    } else {
      const stale = cache.peek(id)
      if (stale !== undefined) cache.set(id, { ...stale, checkAgainNanos: after(now, retryAfterMillis) })
    }
  }

  const lookUp: KeyCache["lookUp"] = (id, slot, client) =>
    Effect.uninterruptibleMask((restore) => {
      const running = underWay.get(id)
      if (running !== undefined) return restore(awaitAnswer(running))
      // noted as under way it has to run, also where this request ends
      const answer = Deferred.makeUnsafe<Option.Option<FoundKey>, Unavailable>()
      underWay.set(id, answer)
      const hash = Buffer.from(id, "hex")
      const found = cells.of(slot)?.apiKeys.find({ hash, slot, client }) ?? Effect.fail(notOwned())
      return found.pipe(
        Effect.map(Option.filter(({ revoked }) => !revoked)),
        Effect.onExit((exit) =>
          Effect.flatMap(Clock.monotonicTimeNanos, (now) => {
            underWay.delete(id)
            record(id, exit, now)
            return Deferred.done(answer, exit)
          })
        ),
        Effect.forkIn(scope),
        Effect.andThen(restore(awaitAnswer(answer)))
      )
    })

  const get: KeyCache["get"] = (id, now) => {
    const cached = cache.get(id)
    return cached === undefined || now >= cached.endsNanos ? undefined : cached
  }

  return { get, peek: (id) => cache.peek(id), lookUp } satisfies KeyCache
})

const awaitAnswer = (answer: Deferred.Deferred<Option.Option<FoundKey>, Unavailable>) =>
  Deferred.await(answer).pipe(
    Effect.timeoutOrElse({
      duration: Duration.millis(lookUpTimeoutMillis),
      orElse: () =>
        Effect.fail(new Unavailable({ message: "The key cannot be checked now; send the same request again" }))
    })
  )
