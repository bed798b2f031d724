import { failExpired } from "@card-rewards/core/Batcher/Expiry"
import { KeyedStates } from "@card-rewards/core/Batcher/KeyedStates"
import { type LinkedEntry, LinkedList, unlisted } from "@card-rewards/core/Batcher/LinkedList"
import { deadlineStart, unavailableAfterMillis, WaitingSince } from "@card-rewards/core/Database"
import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect, type Scope } from "effect"
import * as Refusals from "./Refusals.ts"

/** The maximum numbers of handlers that run at the same time, of all integrators and of one. */
export interface SlotLimits {
  readonly all: number
  readonly ofOne: number
}

/** A request that waits for a slot. */
interface Waiting extends LinkedEntry<Waiting> {
  /** Lets the request go on. */
  readonly admit: () => void
}

/** A request that is refused where it still waits for a slot then. */
interface Expiring extends LinkedEntry<Expiring> {
  /** Milliseconds of the monotonic clock. */
  readonly deadlineMillis: number
  readonly refuse: () => void
}

/** The requests that wait, in the order of their deadlines. */
interface Deadlines {
  readonly add: (entry: Expiring) => void
  readonly delete: (entry: Expiring) => boolean
}

/** What one integrator has at the moment. It is listed while requests of it wait for a slot of all integrators'. */
interface Own extends LinkedEntry<Own> {
  running: number
  readonly waiting: LinkedList<Waiting>
}

/**
 * Slots for the handlers of requests; further ones wait, those of one integrator in order, and integrators in turns. A
 * handler has a database connection for as long as its statements take, or wait for a lock, and its result takes
 * processor time: without a limit, pages of 1 MiB that one integrator reads on many connections would hold up the
 * requests of all others by hundreds of milliseconds, and changes of a few locked vaults would hold all connections.
 * Requests that are joined into batches need no slot. How many wait is bounded by the limit on requests in flight. One
 * waits no longer than its deadline at the database, towards which that time counts.
 */
export class HandlerSlots {
  private readonly owners = new KeyedStates(
    (): Own => ({ ...unlisted, running: 0, waiting: new LinkedList() }),
    ({ isListed, running }) => running === 0 && !isListed
  )
  /** The integrators that are listed, the next one first. */
  private readonly ready = new LinkedList<Own>()
  private running = 0
  private readonly limits: SlotLimits
  private readonly deadlines: Deadlines

  private constructor(limits: SlotLimits, deadlines: Deadlines) {
    this.limits = limits
    this.deadlines = deadlines
  }

  static readonly make = (limits: SlotLimits): Effect.Effect<HandlerSlots, never, Scope.Scope> =>
    Effect.map(failExpired<Expiring>(({ refuse }) => refuse()), (deadlines) => new HandlerSlots(limits, deadlines))

  /** Runs a handler as soon as its integrator has a slot for it. */
  run<A, E, R>(integratorId: IntegratorId, handler: Effect.Effect<A, E, R>): Effect.Effect<A, E | Unavailable, R> {
    return Effect.uninterruptibleMask((restore) => {
      const own = this.owners.of(integratorId)
      const handling = Effect.ensuring(restore(handler), this.giveBack(own))
      if (own.running < this.limits.ofOne && this.running < this.limits.all) {
        this.take(own)
        return handling
      }
      return Effect.flatMap(deadlineStart, (since) =>
        Effect.andThen(restore(this.wait(own, since)), Effect.provideService(handling, WaitingSince, since)))
    })
  }

  /** Waits for a slot, which is counted when it is given. */
  private wait(own: Own, since: bigint): Effect.Effect<void, Unavailable> {
    return Effect.suspend(() => {
      let waiting: Waiting | undefined
      let expiring: Expiring | undefined
      const leave = (): boolean => {
        if (expiring !== undefined) this.deadlines.delete(expiring)
        return waiting !== undefined && own.waiting.delete(waiting)
      }
      return Effect.callback<void, Unavailable>((resume) => {
        waiting = {
          ...unlisted,
          admit: () => {
            leave()
            // not at once: the next handler would run on the stack of the one that admits it, and so on
            resume(Effect.yieldNow)
          }
        }
        expiring = {
          ...unlisted,
          deadlineMillis: Number(since / 1_000_000n) + unavailableAfterMillis,
          refuse: () => {
            leave()
            this.list(own)
            resume(Refusals.busy)
          }
        }
        own.waiting.add(waiting)
        this.deadlines.add(expiring)
        this.list(own)
      }).pipe(
        Effect.onInterrupt(() => {
          // no longer listed: it had its slot, and was interrupted before it went on
          if (waiting !== undefined && !leave()) return this.giveBack(own)
          this.list(own)
          return Effect.void
        })
      )
    })
  }

  private giveBack(own: Own): Effect.Effect<void> {
    return Effect.sync(() => {
      own.running--
      this.running--
      this.list(own)
      const next = this.ready.first
      const waiting = next?.waiting.first
      if (next === undefined || waiting === undefined) return
      this.take(next)
      waiting.admit()
      // it comes after the others
      this.ready.delete(next)
      this.list(next)
    })
  }

  private take(own: Own): void {
    own.running++
    this.running++
  }

  /** Lists the integrator if requests of it wait and may have another slot, and no longer otherwise. */
  private list(own: Own): void {
    const isReady = own.waiting.first !== undefined && own.running < this.limits.ofOne
    if (isReady && !own.isListed) this.ready.add(own)
    if (!isReady) this.ready.delete(own)
  }
}
