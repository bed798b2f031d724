import { type LinkedEntry, LinkedList, unlisted } from "@card-rewards/core/Batcher/LinkedList"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"

/** Requests of one integrator whose handlers run at the same time, at most. */
export const maxOfOne = 4

/** A request that waits for a slot. */
interface Waiting extends LinkedEntry<Waiting> {
  /** Runs where the request has its slot, which is counted. */
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
 * integrator reads on many connections would hold up everybody else's requests by hundreds of milliseconds. Requests
 * that are joined into batches need no slot. How many wait is bounded by the limit on requests in flight.
 */
export class HandlerSlots {
  private readonly owners = new Map<IntegratorId, Own>()

  /** Runs a handler as soon as its integrator has a slot for it. */
  run<A, E, R>(integratorId: IntegratorId, handler: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(this.take(integratorId)), () =>
        Effect.ensuring(restore(handler), this.giveBack(integratorId)))
    )
  }

  private take(integratorId: IntegratorId): Effect.Effect<void> {
    return Effect.suspend(() => {
      const known = this.owners.get(integratorId)
      const own = known ?? { running: 0, waiting: new LinkedList<Waiting>() }
      if (known === undefined) this.owners.set(integratorId, own)
      if (own.running < maxOfOne) {
        own.running++
        return Effect.void
      }
      let waiting: Waiting | undefined
      return Effect.callback<void>((resume) => {
        waiting = { ...unlisted, admit: () => resume(Effect.void) }
        own.waiting.add(waiting)
      }).pipe(
        // no longer listed: it had its slot, and was interrupted before it went on
        Effect.onInterrupt(() =>
          waiting === undefined || own.waiting.delete(waiting) ? Effect.void : this.giveBack(integratorId))
      )
    })
  }

  private giveBack(integratorId: IntegratorId): Effect.Effect<void> {
    return Effect.sync(() => {
      const own = this.owners.get(integratorId)
      if (own === undefined) return
      const next = own.waiting.first
      if (next === undefined) {
        own.running--
        if (own.running === 0) this.owners.delete(integratorId)
      } else {
        own.waiting.delete(next)
        next.admit()
      }
    })
  }
}
