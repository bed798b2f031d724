import { Context, Effect, type Latch } from "effect"

/**
 * The wake-up signal of this process's webhook dispatcher. Opening the latch makes the dispatcher scan for deliveries
 * at once. Without it, and for deliveries of other processes, the dispatcher scans after its idle pause.
 */
export const DispatcherWakeUp = Context.Reference<Latch.Latch | undefined>("@card-rewards/worker/DispatcherWakeUp", {
  defaultValue: () => undefined
})

/** Wakes the dispatcher after each run of `step` that did work; returns whether it did. */
export const wakingDispatcher = <E, R>(step: Effect.Effect<number, E, R>): Effect.Effect<boolean, E, R> =>
  Effect.flatMap(DispatcherWakeUp, (wakeUp) =>
    Effect.map(step, (count) => {
      if (count > 0) wakeUp?.openUnsafe()
      return count > 0
    }))
