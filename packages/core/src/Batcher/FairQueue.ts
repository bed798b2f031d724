/** The part of a limit that one integrator may take (decisions, section 8). */
export const maxShare = 1 / 4

/** An entry that its owner may mark as done while it is queued. */
export interface QueueEntry {
  readonly isDone: boolean
}

/** A bounded queue in which keys take turns; entries of one key keep their order. */
export class FairQueue<Entry extends QueueEntry> {
  private readonly queues = new Map<string, Array<Entry>>()
  private readonly maxSize: number
  private total = 0

  constructor(maxSize: number) {
    this.maxSize = maxSize
  }

  /** Number of entries, including those done since they were added. */
  get size(): number {
    return this.total
  }

  /** Adds an entry; returns false where the queue is full, or the key has a quarter of its limit. */
  add(key: string, entry: Entry): boolean {
    const queue = this.queues.get(key)
    if (this.total >= this.maxSize || (queue?.length ?? 0) >= this.maxSize * maxShare) return false
    if (queue === undefined) this.queues.set(key, [entry])
    else queue.push(entry)
    this.total++
    return true
  }

  /**
   * Takes up to `limit` entries that are not done: an equal share of each key that `mayTake` allows, whose other
   * entries go to the end.
   */
  take(limit: number, mayTake: (key: string) => boolean = () => true): ReadonlyArray<Entry> {
    const batch: Array<Entry> = []
    const share = Math.max(1, Math.floor(limit / this.queues.size))
    for (const [key, queue] of this.queues) {
      if (batch.length >= limit) break
      if (!mayTake(key)) continue
      this.queues.delete(key)
      const taken = queue.splice(0, Math.min(share, limit - batch.length))
      this.total -= taken.length
      for (const entry of taken) if (!entry.isDone) batch.push(entry)
      if (queue.length > 0) this.queues.set(key, queue)
    }
    return batch
  }
}
