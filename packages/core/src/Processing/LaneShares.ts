import { type LaneKey, laneKeyOf } from "./LaneWatermarks.ts"

/** Batches that one process has in flight at once, at most. */
export const maxParallel = 3

/**
 * The lanes of the batches that one process has in flight. Other processes are kept from them by the locks of their
 * rows. The fibers of one process would find each other's lanes again and again, and wait for each other's vaults.
 */
export class LaneShares {
  private readonly inFlight = new Set<ReadonlyArray<LaneKey>>()

  /**
   * Takes lanes for a batch that no other batch has; as long as there are any, of integrators that no other batch has.
   * With `isShared` it takes a share of `found`, so that {@link maxParallel} batches divide it. Of several integrators
   * the share ends with the last lane of one: two batches with the same vault would wait for each other.
   */
  take(found: ReadonlyArray<LaneKey>, isShared: boolean): ReadonlyArray<LaneKey> {
    const free = this.free(found)
    const share = Math.ceil(found.length / maxParallel)
    const isAlone = found.every(({ integratorId }) => integratorId === found[0]?.integratorId)
    const last = isAlone ? undefined : free[share - 1]?.integratorId
    return this.add(isShared ? free.filter(({ integratorId }, index) => index < share || integratorId === last) : free)
  }

  /** Adds the lanes of a batch, of which other batches may have some. */
  add(taken: ReadonlyArray<LaneKey>): ReadonlyArray<LaneKey> {
    this.inFlight.add(taken)
    return taken
  }

  /** Gives back what {@link take} or {@link add} returned. */
  release(taken: ReadonlyArray<LaneKey>): void {
    this.inFlight.delete(taken)
  }

  private free(found: ReadonlyArray<LaneKey>): ReadonlyArray<LaneKey> {
    const inFlight = [...this.inFlight].flat()
    if (inFlight.length === 0) return found
    const integrators = new Set(inFlight.map(({ integratorId }) => integratorId))
    const ofOthers = found.filter(({ integratorId }) => !integrators.has(integratorId))
    if (ofOthers.length > 0) return ofOthers
    const lanes = new Set(inFlight.map(laneKeyOf))
    return found.filter((lane) => !lanes.has(laneKeyOf(lane)))
  }
}
