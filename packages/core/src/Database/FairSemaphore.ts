import { CurrentIntegrator } from "@card-rewards/domain/http/RequestPipeline"
import { Context, Effect, type Scope } from "effect"
import { FairQueue } from "../Batcher/FairQueue.ts"

/** A fiber that waits for a permit. */
interface Waiting {
  /** Whether it got a permit, or was interrupted. */
  isDone: boolean
  readonly admit: () => void
}

/**
 * A semaphore for the connections of a pool. While all permits are in use, the integrators whose requests wait get free
 * ones round robin, and the process's own work counts as one of them: a hundred reads of one integrator delay a read of
 * another one by a single statement. The api's limits on requests in flight bound the number of waiting requests.
 */
export class FairSemaphore {
  private free: number
  private readonly waiting = new FairQueue<Waiting>(Number.POSITIVE_INFINITY)

  constructor(permits: number) {
    this.free = permits
  }

  /** Runs `use` with a permit. */
  readonly withPermit = <A, E, R>(use: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(this.acquire), () => Effect.ensuring(restore(use), this.release)))

  /** Acquires a permit until the scope closes. */
  readonly acquireScoped: Effect.Effect<void, never, Scope.Scope> = Effect.acquireRelease(
    Effect.suspend(() => this.acquire),
    () => this.release,
    { interruptible: true }
  )

  private readonly acquire: Effect.Effect<void> = Effect.withFiber((fiber) => {
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
        // it got a permit, and was interrupted before it could use it
        if (entry.isDone) return this.release
        entry.isDone = true
        return Effect.void
      })
    )
  })

  private readonly release: Effect.Effect<void> = Effect.sync(() => {
    const [next] = this.waiting.take(1)
    if (next === undefined) this.free++
    else next.admit()
  })
}
