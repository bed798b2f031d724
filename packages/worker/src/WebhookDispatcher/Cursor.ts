import type { LogReading, ReplayReading } from "@card-rewards/core/Deliveries"

/** Events of one endpoint's replay that a worker has in memory, at most. */
export const maxReplayed = 32

/** How far an endpoint, or its replay, has come in the event log. */
export class Cursor {
  /** The last event that was read. */
  readTo: bigint
  /** The cursor as it is stored. */
  recordedTo: bigint
  /** How many of the events in between are in the window. */
  count = 0
  /** Whether there may be more than the last read found. */
  hasMore = true

  constructor(event: bigint) {
    this.readTo = event
    this.recordedTo = event
  }

  /** Takes in a read; `isLimited` where it may have left out events because of its limits. */
  read({ events, readTo }: LogReading, isLimited: boolean): void {
    const last = events.at(-1)?.event ?? readTo
    this.hasMore = last > this.readTo && (isLimited || events.length === 0)
    this.readTo = last
  }

  /** Whether it may move although nothing is to be recorded. */
  get isAhead(): boolean {
    return this.count === 0 && this.readTo > this.recordedTo
  }
}

/** The cursor of a replay. */
export class ReplayCursor extends Cursor {
  readonly round: number
  readonly last: bigint

  constructor({ after, last, round }: ReplayReading) {
    super(after)
    this.round = round
    this.last = last
  }

  /** Whether there is something to read at once. */
  get isLow(): boolean {
    return this.hasMore && this.readTo < this.last && this.count <= maxReplayed / 2
  }
}
