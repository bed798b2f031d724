import { CurrentIntegrator } from "@card-rewards/domain/http/RequestPipeline"
import { Context, Effect, type Scope } from "effect"
import { FairQueue } from "../Batcher/FairQueue.ts"

/** A fiber that waits for its turn. */
interface Waiting {
  /** Whether it has its turn, or was interrupted. */
  isDone: boolean
  readonly admit: () => void
}

/**
 * Whose turn it is to borrow a connection of a pool. While all are borrowed, the integrators whose requests wait take
 * turns, and so does what the process does for all of them: a hundred reads of one integrator hold up another one's by
 * a single statement. How many wait is bounded by the api's limits on requests in flight.
 */
export class ConnectionTurns {
  private free: number
  private readonly waiting = new FairQueue<Waiting>(Number.POSITIVE_INFINITY)

  constructor(connections: number) {
    this.free = connections
  }

  /** Runs `use`, which borrows one connection, in the fiber's turn. */
  readonly within = <A, E, R>(use: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(this.take), () => Effect.ensuring(restore(use), this.giveBack)))

  /** Takes the fiber's turn until the scope closes. */
  readonly scoped: Effect.Effect<void, never, Scope.Scope> = Effect.acquireRelease(
    Effect.suspend(() => this.take),
    () => this.giveBack,
    { interruptible: true }
  )

  private readonly take: Effect.Effect<void> = Effect.withFiber((fiber) => {
    if (this.free > 0) {
      this.free--
      return Effect.void
    }
    const integrator = Context.getOrUndefined(fiber.context, CurrentIntegrator)
    const entry = { isDone: false, admit: () => {} }
    return Effect.callback<void>((resume) => {
      entry.admit = () => {
        entry.isDone = true
        resume(Effect.void)
      }
      this.waiting.add(integrator?.integratorId ?? "", entry)
    }).pipe(
      Effect.onInterrupt(() => {
        // admitted, and interrupted before it went on
        if (entry.isDone) return this.giveBack
        entry.isDone = true
        return Effect.void
      })
    )
  })

  private readonly giveBack: Effect.Effect<void> = Effect.sync(() => {
    const [next] = this.waiting.take(1)
    if (next === undefined) this.free++
    else next.admit()
  })
}
