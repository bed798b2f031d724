import { type LaneKey, laneKeyOf } from "../LaneKey.ts"

/** Batches that one process has in flight at once, at most. */
export const maxParallel = 3

/**
 * The lanes of the batches that one process has in flight. Other processes are kept from them by the locks of their
 * rows. The fibers of one process would find each other's lanes again and again, and wait for each other's vaults.
 */
export class LaneShares {
  private readonly inFlight = new Set<ReadonlyArray<LaneKey>>()

  /**
   * Takes lanes for a batch that no other batch has, at most `limit`; as long as there are any, of integrators that no
   * other batch has. With `isShared` it leaves as many to each of the batches that may still begin, and ends with the
   * last lane of an integrator: two batches with the same vault would wait for each other. Returns also what it leaves.
   */
  take(found: ReadonlyArray<LaneKey>, limit: number, isShared: boolean) {
    const free = this.free(found)
    const share = isShared ? Math.ceil(free.length / Math.max(1, maxParallel - this.inFlight.size)) : limit
    const isAlone = found.every(({ integratorId }) => integratorId === found[0]?.integratorId)
    const last = isAlone ? undefined : free[share - 1]?.integratorId
    const end = free.findIndex(({ integratorId }, index) => index >= share && integratorId !== last)
    const taken = firstWhole(end === -1 ? free : free.slice(0, end), limit)
    this.inFlight.add(taken)
    return { taken, left: free.slice(taken.length) }
  }

  /** Gives back the lanes of a batch. */
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

/** The first lanes, at most `limit`, without the rest of an integrator that does not fit, unless it is the first. */
export const firstWhole = (lanes: ReadonlyArray<LaneKey>, limit: number): ReadonlyArray<LaneKey> => {
  const beyond = lanes[limit]?.integratorId
  if (beyond === undefined || beyond === lanes[0]?.integratorId) return lanes.slice(0, limit)
  return lanes.slice(0, lanes.findIndex(({ integratorId }) => integratorId === beyond))
}
