import { LRUCache } from "lru-cache"
import type { VaultChange } from "./Apply.ts"
import { authorizationOf, catalogOf, type State, type StoredEvent } from "./State.ts"

/**
 * The budget of one batch in units of work. An event that is applied or set aside counts one unit, plus one for each
 * reward that it creates or may change, up to five where its ids are long, and one for each program whose estimate it
 * may change, and what {@link decidingUnits} adds. 2,000 units take about 0.1 s.
 */
export const maxUnits = 2_000

/** Campaigns that are as much work to evaluate as one unit: 200 of them take 10 µs. */
const campaignsPerUnit = 1_000

/**
 * Bytes of a reward's ids that are as much work to store as one unit: in rows of rewards, of the journal, of events and
 * of cap usage, and in their indexes. 2,000 rewards took 0.12 s with ids of 8 characters, 0.22 s with ids of 128, and
 * 0.65 s with ids of 128 that take four bytes each, which are the longest.
 */
const idBytesPerUnit = 512

/** Bytes of lists of programs in which clearings earned nothing that are as much work to store as one unit. */
const listBytesPerUnit = 1_024

/** The expected units of an event of an unknown integrator, and the maximum: 50 programs mostly make 101. */
const usualWeight = 2
const maxWeight = 101

/** The maximum number of integrators whose weights are kept: the most recently processed ones. */
const maxWeights = 2_048

/**
 * The number of programs whose estimates an event may change: all of the integrator's, or none. Must be called before
 * the event is applied.
 */
export const estimatesMovedBy = (state: State, event: StoredEvent): number => {
  const isOpen = event.kind === "authorization" || authorizationOf(state, event)?.closed === false
  return isOpen ? catalogOf(state, event.integratorId).metadata.size : 0
}

/** The units of the rewards that the changes of an event create or may change. */
export const rewardUnits = (event: StoredEvent, changes: ReadonlyArray<VaultChange>): number => {
  let units = 0
  for (const change of changes) {
    const { externalTransactionId } = change.kind === "earn" ? change.reward : change
    const ids = Buffer.byteLength(event.integratorId + event.userId + externalTransactionId)
    for (const programId of change.kind === "earn" ? [change.reward.programId] : change.programIds) {
      units += 1 + Math.floor((ids + Buffer.byteLength(programId)) / idBytesPerUnit)
    }
  }
  return units
}

/**
 * The units of all campaigns that were evaluated, and of all lists that were printed. A clearing that earns nothing
 * under 50 programs of 200 campaigns each makes ten by the former, and 27 by the latter where their ids are the longest
 * and no clearing before it has the same list.
 */
export const decidingUnits = ({ evaluated, unearned }: State): number =>
  Math.floor(evaluated.campaigns / campaignsPerUnit + unearned.bytes / listBytesPerUnit)

/** An equal share of the remaining limit for each remaining part; at least 1. */
export const fairShare = (left: number, parts: number): number => Math.max(1, Math.ceil(left / parts))

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
