import { FairQueue, type QueueEntry } from "@card-rewards/core/Batcher/FairQueue"

/**
 * Requests that start in one turn of the event loop, at most: about 5 ms of work. What a request does after its start
 * waits for input, and so comes in later turns.
 */
export const maxStartsPerTurn = 64

/** Requests that wait for their start, at most; one owner has a quarter. */
export const maxWaitingToStart = 40_000

/** A request that is to start. */
interface Candidate {
  /** Only asked for where the request has to wait. */
  readonly owner: () => string
  readonly isClosed: () => boolean
  readonly start: () => void
}

interface Waiting extends QueueEntry {
  readonly start: () => void
}

/** Starts requests so that each turn of the event loop is short. Where more come, their owners take turns. */
export class RequestTurns {
  private readonly waiting = new FairQueue<Waiting>(maxWaitingToStart)
  private started = 0
  private isScheduled = false

  /**
   * Starts a request now, or in its owner's turn, unless its connection is closed by then; false where too many wait.
   */
  run(request: Candidate): boolean {
    this.schedule()
    if (this.started < maxStartsPerTurn && this.waiting.size === 0) {
      this.started++
      request.start()
      return true
    }
    return this.waiting.add(request.owner(), {
      start: request.start,
      get isDone() {
        return request.isClosed()
      }
    })
  }

  private schedule(): void {
    if (this.isScheduled) return
    this.isScheduled = true
    setImmediate(() => {
      this.isScheduled = false
      this.started = 0
      if (this.waiting.size === 0) return
      this.schedule()
      for (const { start } of this.waiting.take(maxStartsPerTurn)) {
        this.started++
        start()
      }
    })
  }
}
