import { FairQueue, type QueueEntry } from "@card-rewards/core/Batcher/FairQueue"

/**
 * Requests that start in one turn of the event loop, at most: about 5 ms of work. What a request does after its start
 * waits for input, and so comes in later turns.
 */
export const maxStartsPerTurn = 64

/** The time after which a turn starts no further one: some requests take a hundred times as long as others. */
export const maxTurnMillis = 5

/** Requests that wait for their start, at most; one owner has a quarter. */
export const maxWaitingToStart = 40_000

/** A request that is to start, or its body that is to be decoded. */
interface Candidate {
  /** Only called where the request has to wait. */
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
  private endsAtMillis = 0
  private isScheduled = false
  private readonly nowMillis: () => number

  constructor(nowMillis = () => performance.now()) {
    this.nowMillis = nowMillis
  }

  /**
   * Starts a request now, or in its owner's turn, unless its connection is closed by then; false where too many wait.
   */
  run(request: Candidate): boolean {
    this.schedule()
    if (this.waiting.size === 0 && this.mayStart) {
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

  private get mayStart(): boolean {
    return this.started === 0 || (this.started < maxStartsPerTurn && this.nowMillis() < this.endsAtMillis)
  }

  private schedule(): void {
    if (this.isScheduled) return
    this.isScheduled = true
    this.endsAtMillis = this.nowMillis() + maxTurnMillis
    setImmediate(() => {
      this.isScheduled = false
      this.started = 0
      if (this.waiting.size === 0) return
      this.schedule()
      while (this.mayStart) {
        const [next] = this.waiting.take(1)
        if (next === undefined) return
        this.started++
        next.start()
      }
    })
  }
}
