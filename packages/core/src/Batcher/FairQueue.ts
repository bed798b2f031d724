import { KeyedStates } from "./KeyedStates.ts"
import { type LinkedEntry, LinkedList } from "./LinkedList.ts"

/** The part of a limit that one integrator may take (decisions, section 8). */
export const maxShare = 1 / 4

/** An entry that its owner may mark as done while it is queued. */
export interface QueueEntry {
  readonly isDone: boolean
  /** Whether the entry, and all behind it of the same key, must stay queued for now. */
  readonly isHeld?: boolean
}

/** A queued entry. One that was taken points to no later one, so that it keeps none of them, see {@link LinkedList}. */
interface Node<Entry> {
  readonly entry: Entry
  next: Node<Entry> | undefined
}

/** The entries of one key. */
class KeyQueue<Entry> implements LinkedEntry<KeyQueue<Entry>> {
  previous: KeyQueue<Entry> | undefined
  next: KeyQueue<Entry> | undefined
  isListed = false
  /** Whether what was taken of the key is not released yet. */
  isInFlight = false
  size = 0
  private first: Node<Entry> | undefined
  private last: Node<Entry> | undefined

  add(entry: Entry): void {
    const node = { entry, next: undefined }
    if (this.last === undefined) this.first = node
    else this.last.next = node
    this.last = node
    this.size++
  }

  peek(): Entry | undefined {
    return this.first?.entry
  }

  take(): Entry | undefined {
    const node = this.first
    if (node === undefined) return undefined
    this.first = node.next
    node.next = undefined
    if (this.first === undefined) this.last = undefined
    this.size--
    return node.entry
  }
}

/** A bounded queue in which keys take turns; entries of one key keep their order. */
export class FairQueue<Entry extends QueueEntry> {
  private readonly queues = new KeyedStates(
    () => new KeyQueue<Entry>(),
    ({ isInFlight, isListed }) => !isInFlight && !isListed
  )
  /** The queues with entries, the next one first; none that is in flight. */
  private readonly inOrder = new LinkedList<KeyQueue<Entry>>()
  private keys = 0
  private readonly maxSize: number
  private total = 0

  constructor(maxSize: number) {
    this.maxSize = maxSize
  }

  /** Number of entries, including those done since they were added. */
  get size(): number {
    return this.total
  }

  /** Whether `count` entries of a key can be added: a key may have a quarter of the queue's limit. */
  hasRoomFor(key: string, count: number): boolean {
    return this.fits(this.queues.of(key), count)
  }

  /** Adds an entry; returns false where there is no room for it. */
  add(key: string, entry: Entry): boolean {
    const queue = this.queues.of(key)
    if (!this.fits(queue, 1)) return false
    queue.add(entry)
    this.total++
    if (!queue.isListed && !queue.isInFlight) this.list(queue)
    return true
  }

  /**
   * Takes up to `limit` entries that are neither done nor held: an equal share of each key, whose other entries go to
   * the end.
   */
  take(limit: number): ReadonlyArray<Entry> {
    const batch: Array<Entry> = []
    const share = Math.max(1, Math.floor(limit / this.keys))
    this.inRounds((queue) => {
      this.takeFrom(queue, Math.min(share, limit - batch.length), batch)
      return batch.length >= limit
    })
    return batch
  }

  /**
   * Takes up to `limit` entries of one key that are neither done nor held. All others of the key, and those added
   * meanwhile, stay queued until `release`.
   */
  takeOfOneKey(limit: number): { readonly batch: ReadonlyArray<Entry>; readonly release: () => void } {
    const batch: Array<Entry> = []
    let release = () => {}
    this.inRounds((queue) => {
      this.takeFrom(queue, limit, batch)
      if (batch.length === 0) return false
      release = this.hold(queue)
      return true
    })
    return { batch, release }
  }

  /**
   * Visits the listed queues, each once in a round, until one is the last, or a round has taken nothing. Each visit
   * moves its queue to the end.
   */
  private inRounds(isLast: (queue: KeyQueue<Entry>) => boolean): void {
    let before: number
    do {
      before = this.total
      for (let left = this.keys; left > 0; left--) {
        const queue = this.inOrder.first
        if (queue === undefined || isLast(queue)) return
      }
    } while (this.total < before)
  }

  private hold(queue: KeyQueue<Entry>): () => void {
    if (this.inOrder.delete(queue)) this.keys--
    queue.isInFlight = true
    return () => {
      queue.isInFlight = false
      if (queue.size > 0) this.list(queue)
    }
  }

  private list(queue: KeyQueue<Entry>): void {
    this.inOrder.add(queue)
    this.keys++
  }

  private fits({ size }: KeyQueue<Entry>, count: number): boolean {
    return this.total + count <= this.maxSize && size + count <= this.maxSize * maxShare
  }

  private takeFrom(queue: KeyQueue<Entry>, count: number, batch: Array<Entry>): void {
    this.inOrder.delete(queue)
    for (let left = count; left > 0; left--) {
      if (queue.peek()?.isHeld === true) break
      const entry = queue.take()
      if (entry === undefined) break
      this.total--
      if (!entry.isDone) batch.push(entry)
    }
    if (queue.size > 0) this.inOrder.add(queue)
    else this.keys--
  }
}
