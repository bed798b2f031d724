import { CurrentIntegrator } from "@card-rewards/domain/http/RequestPipeline"
import { Context, Effect, type Scope } from "effect"
import { FairQueue, maxShare } from "../Batcher/FairQueue.ts"

/** A fiber that waits for a connection. */
interface Waiting {
  /** Whether it was admitted or interrupted. */
  isDone: boolean
  readonly admit: () => void
}

/** Connections that one integrator may borrow of a small pool: a simulation keeps one for up to a minute. */
const minOfOne = 2

/** What the process does for all integrators together. */
const ofTheProcess = ""

/**
 * Who may borrow a connection of a pool. One integrator's requests have a quarter of the connections; while none is
 * free, the integrators take turns, and so does what the process does for all of them. So a hundred reads of one
 * integrator hold up another one's by a few statements. How many wait is bounded by the api's limits on requests in
 * flight.
 */
export class FairConnections {
  private free: number
  private readonly maxOfOne: number
  private readonly borrowed = new Map<string, number>()
  private readonly waiting = new FairQueue<Waiting>(Number.POSITIVE_INFINITY)

  constructor(connections: number) {
    this.free = connections
    this.maxOfOne = Math.max(minOfOne, Math.ceil(connections * maxShare))
  }

  /** Runs `use`, which borrows one connection, as soon as it may. */
  readonly lend = <A, E, R>(use: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(this.take), (borrower) => Effect.ensuring(restore(use), this.giveBack(borrower))))

  /** Lends one connection until the scope closes. */
  readonly scoped: Effect.Effect<void, never, Scope.Scope> = Effect.acquireRelease(
    Effect.suspend(() => this.take),
    (borrower) => this.giveBack(borrower),
    { interruptible: true }
  )

  private readonly take: Effect.Effect<string> = Effect.withFiber((fiber) => {
    const borrower = Context.getOrUndefined(fiber.context, CurrentIntegrator)?.integratorId ?? ofTheProcess
    if (this.free > 0 && this.mayBorrow(borrower)) {
      this.count(borrower, 1)
      return Effect.succeed(borrower)
    }
    const entry = { isDone: false, admit: () => {} }
    return Effect.callback<string>((resume) => {
      entry.admit = () => {
        entry.isDone = true
        this.count(borrower, 1)
        resume(Effect.succeed(borrower))
      }
      this.waiting.add(borrower, entry)
    }).pipe(
      Effect.onInterrupt(() => {
        // admitted, and interrupted before it went on
        if (entry.isDone) return this.giveBack(borrower)
        entry.isDone = true
        return Effect.void
      })
    )
  })

  private giveBack(borrower: string): Effect.Effect<void> {
    return Effect.sync(() => {
      this.count(borrower, -1)
      const [next] = this.waiting.take(1, (waiting) => this.mayBorrow(waiting))
      next?.admit()
    })
  }

  private mayBorrow(borrower: string): boolean {
    return borrower === ofTheProcess || (this.borrowed.get(borrower) ?? 0) < this.maxOfOne
  }

  private count(borrower: string, change: 1 | -1): void {
    this.free -= change
    const borrowed = (this.borrowed.get(borrower) ?? 0) + change
    if (borrowed === 0) this.borrowed.delete(borrower)
    else this.borrowed.set(borrower, borrowed)
  }
}
