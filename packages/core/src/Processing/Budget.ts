import type { Order } from "./Apply.ts"
import { type State, type StoredEvent, transactionKey } from "./State.ts"

/**
 * Work that one batch does, in units: an applied event counts one, and one more for each reward that it creates or may
 * change and each program whose estimate it moves. A thousand take about a tenth of a second.
 */
export const maxUnits = 1_000

/** Units of an event of which nothing is known, and at most; an event under 50 programs makes up to 101. */
const usualWeight = 2
const maxWeight = 101

/** Integrators whose weight is remembered, those processed most recently. */
const maxWeights = 2_048

/** How many programs' estimates an event moves at most; asked before it is applied. */
export const estimatesMovedBy = (state: State, event: StoredEvent): number => {
  if (event.kind === "refund") return 0
  const original = transactionKey({ ...event, externalTransactionId: event.originalId ?? "" })
  const isOpen = event.kind === "authorization" || state.authorizations.get(original)?.closed === false
  return isOpen ? state.programs.get(event.integratorId)?.metadata.size ?? 0 : 0
}

/** How many rewards the orders of an event create or may change. */
export const rewardsChangedBy = (orders: ReadonlyArray<Order>): number =>
  orders.reduce((sum, order) => sum + (order.kind === "earn" ? 1 : order.programIds.length), 0)

/** What is left, shared among those still to come; at least one unit. */
export const fairShare = (left: number, stillToCome: number): number => Math.max(1, Math.ceil(left / stillToCome))

/** How many units an integrator's events made recently: of those with heavy events fewer are read. */
export class EventWeights {
  private readonly weights = new Map<string, number>()

  /** Units that the next event of an integrator is likely to make. */
  of(integratorId: string): number {
    return this.weights.get(integratorId) ?? usualWeight
  }

  /** `events` of the integrator's queue made so many units. */
  observe(integratorId: string, units: number, events: number): void {
    if (events === 0) return
    const observed = Math.min(maxWeight, Math.max(1, units / events))
    const weight = (this.of(integratorId) + observed) / 2
    this.weights.delete(integratorId)
    this.weights.set(integratorId, weight)
    for (const oldest of this.weights.keys()) {
      if (this.weights.size <= maxWeights) break
      this.weights.delete(oldest)
    }
  }
}
