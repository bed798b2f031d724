/** Lanes that a process remembers, those with work most recently. */
const maxKnownLanes = 1_024

/** One of the 16 lanes of an integrator. */
export interface LaneKey {
  readonly integratorId: string
  readonly lane: number
}

/** A lane, and up to which arrival it is empty for good. */
export interface KnownLane extends LaneKey {
  watermark: bigint
}

/** A sample that was begun and whose list of writers is still being read. */
export interface BegunSample {
  readonly highestArrival: bigint
}

interface Sample extends BegunSample {
  readonly writers: ReadonlySet<string>
}

/**
 * Low-water marks of lanes in the queue: a scan of a lane begins behind its watermark. All fibers of a process share
 * one object. Forgetting it costs time and nothing else.
 *
 * Why a watermark never passes an event that is not processed:
 *
 * 1. A transaction that inserts into the queue locks the table before it is given its arrival numbers, and releases
 *    that lock after its rows are visible. Numbers are given in ascending order, but not committed in that order.
 * 2. A sample is the highest arrival that this process has read, and *then* the list of transactions that hold such a
 *    lock. So each event up to that arrival is visible to every later statement, or its writer is in the list.
 * 3. When a list that was read *later* has none of those writers, they have all ended: no event up to the sample's
 *    arrival can become visible any more. It becomes {@link closedArrival}. "Later" is certain because a process has
 *    one sample in progress at most: {@link beginSample} answers undefined until {@link endSample}.
 * 4. A lane's watermark moves up to that arrival only when a statement that began afterwards found no row of the lane
 *    up to it. A row that another transaction is deleting is visible until that commits.
 */
export class LaneWatermarks {
  /** No event with an arrival up to this one can become visible any more. */
  closedArrival = 0n
  /** By lane, the one with work most recently last. */
  private readonly lanes = new Map<string, KnownLane>()
  private highestArrival = 0n
  private sample: Sample | undefined
  private inProgress: BegunSample | undefined

  /** Remembers lanes that have work. */
  remember(lanes: ReadonlyArray<LaneKey>): void {
    for (const { integratorId, lane } of lanes) {
      const key = laneKeyOf({ integratorId, lane })
      const known = this.lanes.get(key) ?? { integratorId, lane, watermark: 0n }
      this.lanes.delete(key)
      this.lanes.set(key, known)
    }
    for (const key of this.lanes.keys()) {
      if (this.lanes.size <= maxKnownLanes) break
      this.lanes.delete(key)
    }
  }

  /** The remembered lanes. */
  known(): ReadonlyArray<KnownLane> {
    return [...this.lanes.values()]
  }

  /** A scan of the lane begins behind this arrival. */
  watermarkOf(lane: LaneKey): bigint {
    return this.lanes.get(laneKeyOf(lane))?.watermark ?? 0n
  }

  /** Events with these arrivals were read. */
  observeArrivals(arrivals: Iterable<bigint>): void {
    for (const arrival of arrivals) if (arrival > this.highestArrival) this.highestArrival = arrival
  }

  /** Begins a sample, before its writers are read; undefined while another one is in progress. */
  beginSample(): BegunSample | undefined {
    if (this.inProgress !== undefined) return undefined
    this.inProgress = { highestArrival: this.highestArrival }
    return this.inProgress
  }

  /** Ends a sample with the transactions that were writing to the queue, or undefined where they could not be read. */
  endSample(begun: BegunSample, writers: ReadonlySet<string> | undefined): void {
    if (this.inProgress !== begun) return
    this.inProgress = undefined
    if (writers === undefined) return
    const before = this.sample
    if (before !== undefined && [...before.writers].some((writer) => writers.has(writer))) return
    if (before !== undefined) this.closedArrival = before.highestArrival
    this.sample = { highestArrival: begun.highestArrival, writers }
  }

  /**
   * The lanes were scanned, in a statement that began when {@link closedArrival} was `closed`; `first` is the first
   * arrival behind a lane's watermark, undefined where there is none.
   */
  scanned(lanes: ReadonlyArray<KnownLane>, closed: bigint, first: (lane: LaneKey) => bigint | undefined): void {
    for (const lane of lanes) {
      const arrival = first(lane)
      if (lane.watermark < closed && (arrival === undefined || arrival > closed)) lane.watermark = closed
    }
  }

  /** Forgets the lanes: where scans are quick, watermarks save nothing. */
  forgetLanes(): void {
    this.lanes.clear()
  }

  /** Forgets everything: the server that answers next may be another one, whose arrivals begin elsewhere. */
  reset(): void {
    this.lanes.clear()
    this.closedArrival = 0n
    this.highestArrival = 0n
    this.sample = undefined
    this.inProgress = undefined
  }
}

/** Key of a lane in a map. */
export const laneKeyOf = ({ integratorId, lane }: LaneKey): string => `${integratorId}\0${lane}`
