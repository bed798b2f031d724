import { KeyedStates } from "@card-rewards/core/Batcher/KeyedStates"
import { type LinkedEntry, LinkedList, unlisted } from "@card-rewards/core/Batcher/LinkedList"
import { WaitingSince } from "@card-rewards/core/Database"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Effect } from "effect"

/** Requests of one integrator whose handlers run at the same time, at most. */
export const maxOfOne = 4

/** A request that waits for a slot. */
interface Waiting extends LinkedEntry<Waiting> {
  /** Lets the request go on. */
  readonly admit: () => void
}

/** What one integrator has at the moment. */
interface Own {
  running: number
  readonly waiting: LinkedList<Waiting>
}

/**
 * Slots for the handlers of one integrator's requests; further ones wait in order. A handler has a database connection
 * for as long as its statements take, and its result takes processor time: without the limit, pages of 1 MiB that one
 * integrator reads on many connections would hold up the requests of all others by hundreds of milliseconds. Requests
 * that are joined into batches need no slot. How many wait is bounded by the limit on requests in flight; the time for
 * which one waits counts towards its deadline at the database.
 */
export class HandlerSlots {
  private readonly owners = new KeyedStates(
    (): Own => ({ running: 0, waiting: new LinkedList() }),
    ({ running }) => running === 0
  )

  /** Runs a handler as soon as its integrator has a slot for it. */
  run<A, E, R>(integratorId: IntegratorId, handler: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.uninterruptibleMask((restore) => {
      const own = this.owners.of(integratorId)
      const handling = Effect.ensuring(restore(handler), giveBack(own))
      if (own.running === maxOfOne) {
        return Effect.flatMap(Clock.monotonicTimeNanos, (now) =>
          Effect.andThen(restore(wait(own)), Effect.provideService(handling, WaitingSince, now)))
      }
      own.running++
      return handling
    })
  }
}

/** Waits for a slot that another request gives back, which stays counted. */
const wait = (own: Own): Effect.Effect<void> =>
  Effect.suspend(() => {
    let waiting: Waiting | undefined
    return Effect.callback<void>((resume) => {
      // not at once: the next handler would run on the stack of the one that admits it, and so on
      waiting = { ...unlisted, admit: () => resume(Effect.yieldNow) }
      own.waiting.add(waiting)
    }).pipe(
      // no longer listed: it had its slot, and was interrupted before it went on
      Effect.onInterrupt(() => waiting === undefined || own.waiting.delete(waiting) ? Effect.void : giveBack(own))
    )
  })

const giveBack = (own: Own): Effect.Effect<void> =>
  Effect.sync(() => {
    const next = own.waiting.first
    if (next === undefined) own.running--
    else {
      own.waiting.delete(next)
      next.admit()
    }
  })
