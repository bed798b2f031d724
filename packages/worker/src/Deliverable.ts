import { Context, type Latch } from "effect"

/**
 * Opened where this process has stored events: its dispatcher looks for their deliveries at once. Without one, and for what
 * other processes store, it looks when its pause is over.
 */
export const Deliverable = Context.Reference<Latch.Latch | undefined>("@card-rewards/worker/Deliverable", {
  defaultValue: () => undefined
})
