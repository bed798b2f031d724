import { EventsStored } from "@card-rewards/core/EventsStored"
import { Context, Effect, Latch, Layer } from "effect"

/** The maximum number of integrators that are noted; events of others are found when their endpoints are polled. */
const maxNoted = 10_000

/** Wakes this process's webhook dispatcher, and notes whose events the process has stored. */
export class WakeUp {
  private readonly latch = Latch.makeUnsafe()
  private noted = new Set<string>()

  /** Completes once something was noted since the last {@link take}. */
  readonly awaiting = this.latch.await

  /** Notes the integrators of stored events. */
  note(integratorIds: ReadonlyArray<string>): void {
    for (const integratorId of integratorIds) if (this.noted.size < maxNoted) this.noted.add(integratorId)
    this.latch.openUnsafe()
  }

  /** The integrators that were noted since the last call. */
  take(): ReadonlySet<string> {
    this.latch.closeUnsafe()
    const taken = this.noted
    this.noted = new Set()
    return taken
  }
}

/**
 * What wakes the dispatcher for the events of its own process. Without it, and for events of other processes, the
 * dispatcher finds them after its pauses.
 */
export const DispatcherWakeUp = Context.Reference<WakeUp | undefined>("@card-rewards/worker/DispatcherWakeUp", {
  defaultValue: () => undefined
})

/** Has the transactions and the dispatcher of one cell share a {@link WakeUp}. */
export const layer = Layer.effectContext(Effect.sync(() => {
  const wakeUp = new WakeUp()
  return Context.make(DispatcherWakeUp, wakeUp).pipe(Context.add(EventsStored, (ids) => wakeUp.note(ids)))
}))
