import { Context, Effect, type Latch } from "effect"

/**
 * Opened where this process has stored events: its dispatcher looks for their deliveries at once. Without one, and for what
 * other processes store, it looks when its pause is over.
 */
export const Deliverable = Context.Reference<Latch.Latch | undefined>("@card-rewards/worker/Deliverable", {
  defaultValue: () => undefined
})

/** A step of a loop that stores events: whether it did anything, of which the dispatcher is told. */
export const storing = <E, R>(step: Effect.Effect<number, E, R>): Effect.Effect<boolean, E, R> =>
  Effect.flatMap(Deliverable, (deliverable) =>
    Effect.map(step, (count) => {
      if (count > 0) deliverable?.openUnsafe()
      return count > 0
    }))
