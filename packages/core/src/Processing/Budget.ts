import { LRUCache } from "lru-cache"
import type { Order } from "./Apply.ts"
import { type State, type StoredEvent, transactionKey } from "./State.ts"

/**
 * Units of work of one batch: an applied event counts one unit, plus one for each reward that it creates or may change
 * and each program whose estimate it changes. 1,000 units take about 0.1 s.
 */
export const maxUnits = 1_000

/** Units of an event of an unknown integrator, and the limit: an event under 50 programs makes up to 101 units. */
const usualWeight = 2
const maxWeight = 101

/** Integrators whose weights are kept, the most recently processed ones. */
const maxWeights = 2_048

/** Programs whose estimates an event changes, at most. Must be called before the event is applied. */
export const estimatesMovedBy = (state: State, event: StoredEvent): number => {
  if (event.kind === "refund") return 0
  const original = transactionKey({ ...event, externalTransactionId: event.originalId ?? "" })
  const isOpen = event.kind === "authorization" || state.authorizations.get(original)?.closed === false
  return isOpen ? state.programs.get(event.integratorId)?.metadata.size ?? 0 : 0
}

/** Rewards that the orders of an event create or may change. */
export const rewardsChangedBy = (orders: ReadonlyArray<Order>): number =>
  orders.reduce((sum, order) => sum + (order.kind === "earn" ? 1 : order.programIds.length), 0)

/** An equal share of what is left for those still to come; at least 1. */
export const fairShare = (left: number, stillToCome: number): number => Math.max(1, Math.ceil(left / stillToCome))

/** Recent average of units per event, by integrator. A batch reads fewer events of integrators with heavy events. */
export class EventWeights {
  private readonly weights = new LRUCache<string, number>({ max: maxWeights })

  /** Units that the integrator's next event is expected to make. */
  of(integratorId: string): number {
    return this.weights.get(integratorId) ?? usualWeight
  }

  /** Records that `events` events of the integrator's queue made `units` units. */
  observe(integratorId: string, units: number, events: number): void {
    if (events === 0) return
    const observed = Math.min(maxWeight, Math.max(1, units / events))
    const weight = (this.of(integratorId) + observed) / 2
    this.weights.set(integratorId, weight)
  }
}
