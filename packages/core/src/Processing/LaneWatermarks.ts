import { type LaneKey, laneKeyOf } from "../LaneKey.ts"

/**
 * The maximum number of lanes whose watermarks a process keeps: those that had work most recently, and no fewer than
 * one scan finds.
 */
const maxWatermarks = 2_048

/** A lane of a slot that the cell owns, with the slot's epoch; see Slots.ts. */
export interface OwnedLane extends LaneKey {
  readonly epoch: number
}

/** A lane and its watermark: the arrival number up to which it stays empty while the cell keeps its slot. */
export interface WatermarkedLane extends LaneKey {
  watermark: bigint
  /** The epoch for which the watermark holds; 0 before the first scan of the lane. */
  epoch: number
}

/** What a scan found in a lane: its first arrival after the watermark, or null where there is none. */
export interface ScannedLane extends OwnedLane {
  readonly arrival: bigint | null
}

/** A sample in progress, whose list of writers is being read. */
export interface StartedSample {
  readonly highestArrival: bigint
}

interface Sample extends StartedSample {
  readonly writers: ReadonlySet<string>
}

/**
 * Low-water marks of lanes in the queue: a scan of a lane starts after its watermark. All fibers of a process share one
 * object. Losing the watermarks costs time and has no other effect.
 *
 * Why a watermark never passes an event that is not processed, where a row of the queue has as its key the arrival of
 * the first event that it was stored with:
 *
 * 1. A transaction that inserts into the queue locks the table before it draws its arrival numbers, and releases the
 *    lock after its rows are visible. Numbers are drawn in ascending order, but not committed in that order.
 * 2. A sample is the highest arrival that this process has read, and *then* the list of transactions that hold such a
 *    lock. So each event up to that arrival is visible to every later statement, or its writer is in the list.
 * 3. When a list that was read *later* contains none of those writers, they have all ended: no event up to the sample's
 *    arrival can become visible after that. The arrival becomes {@link closedArrival}. "Later" is certain because a
 *    process has at most one sample in progress: {@link beginSample} returns undefined until {@link endSample}.
 * 4. A lane's watermark moves up to that arrival only when a statement that began afterwards found no row of the lane
 *    up to it. A row that another transaction is deleting stays visible until that transaction commits, and
 *    one of which it has processed a part keeps its key.
 * 5. Rows that a move copies into the queue have numbers of another cell, and 1 does not hold for them. They are
 *    committed before the slot becomes owned, and none are copied while it is. So a statement that sees the epoch of
 *    the slot sees all of them, and the watermark is used for that epoch alone: a scan compares it itself; a batch
 *    reads it with the locks of its lanes, from when on the slot stays owned until the transaction ends. The move first
 *    lets the cell's own numbers pass the copied ones, so that 2 holds where these were read.
 */
export class LaneWatermarks {
  /** No further event with an arrival up to this number can become visible. */
  closedArrival = 0n
  /** By lane, in order of the last work. */
  private readonly lanes = new Map<string, WatermarkedLane>()
  private highestArrival = 0n
  private sample: Sample | undefined
  private inProgress: StartedSample | undefined

  /** Adds lanes that have work. */
  remember(lanes: ReadonlyArray<LaneKey>): void {
    for (const { integratorId, lane } of lanes) {
      const key = laneKeyOf({ integratorId, lane })
      const known = this.lanes.get(key) ?? { integratorId, lane, watermark: 0n, epoch: 0 }
      this.lanes.delete(key)
      this.lanes.set(key, known)
    }
    for (const key of this.lanes.keys()) {
      if (this.lanes.size <= maxWatermarks) break
      this.lanes.delete(key)
    }
  }

  /** The lanes with a watermark. */
  list(): ReadonlyArray<WatermarkedLane> {
    return [...this.lanes.values()]
  }

  /** The arrival after which a scan of the lane starts; 0 where none is known for this ownership of its slot. */
  watermarkOf(lane: OwnedLane): bigint {
    const known = this.lanes.get(laneKeyOf(lane))
    return known?.epoch === lane.epoch ? known.watermark : 0n
  }

  /** Records that events with these arrivals were read. */
  observeArrivals(arrivals: Iterable<bigint>): void {
    for (const arrival of arrivals) if (arrival > this.highestArrival) this.highestArrival = arrival
  }

  /** Begins a sample; must be called before its writers are read. Returns undefined while another is in progress. */
  beginSample(): StartedSample | undefined {
    if (this.inProgress !== undefined) return undefined
    this.inProgress = { highestArrival: this.highestArrival }
    return this.inProgress
  }

  /** Ends a sample with the transactions that write to the queue, or with undefined where they could not be read. */
  endSample(started: StartedSample, writers: ReadonlySet<string> | undefined): void {
    if (this.inProgress !== started) return
    this.inProgress = undefined
    if (writers === undefined) return
    const before = this.sample
    if (before !== undefined && [...before.writers].some((writer) => writers.has(writer))) return
    if (before !== undefined) this.closedArrival = before.highestArrival
    this.sample = { highestArrival: started.highestArrival, writers }
  }

  /**
   * Records a scan of the lanes by a statement that began when {@link closedArrival} was `closed`. `find` returns what
   * it found in a lane, or undefined where the cell does not own the slot.
   */
  scanned(
    lanes: ReadonlyArray<WatermarkedLane>,
    closed: bigint,
    find: (lane: LaneKey) => ScannedLane | undefined
  ): void {
    for (const lane of lanes) {
      const found = find(lane)
      if (found === undefined) continue
      if (lane.epoch !== found.epoch) Object.assign(lane, { epoch: found.epoch, watermark: 0n })
      if (lane.watermark < closed && (found.arrival === null || found.arrival > closed)) lane.watermark = closed
    }
  }

  /** Removes all lanes. Watermarks save nothing while scans of the whole queue are quick. */
  forgetLanes(): void {
    this.lanes.clear()
  }

  /** Resets all state: after an error the next connection may lead to another server, with other arrival numbers. */
  reset(): void {
    this.lanes.clear()
    this.closedArrival = 0n
    this.highestArrival = 0n
    this.sample = undefined
    this.inProgress = undefined
  }
}
