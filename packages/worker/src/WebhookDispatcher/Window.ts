import { LinkedList, unlisted } from "@card-rewards/core/Batcher/LinkedList"
import type {
  DueDelivery,
  EndpointLease,
  EndpointRecord,
  Leased,
  LogReading,
  Reading,
  ReadRequest
} from "@card-rewards/core/Deliveries"
import { Cursor, maxReplayed, ReplayCursor } from "./Cursor.ts"
import { chainKeyOf, isBefore, isReplayed, type Item } from "./Item.ts"

/** New events and retries of one endpoint that a worker has in memory, at most. */
export const maxEvents = 128
const maxRetries = 24

/** Events that may be delivered, or become retries, after an earlier one that is still in flight, at most. */
const maxAhead = 10_000

/**
 * What a worker has read for one endpoint and not recorded yet. Of one reward, and of one event, one delivery at a time
 * is sent, in order of the events; the next one follows once it is recorded how the one before ended.
 */
export class Window {
  /** New events. */
  readonly log: Cursor
  /** The replay that runs. */
  replay: ReplayCursor | undefined
  private readonly items = new LinkedList<Item>()
  /** The deliveries that may be sent now, those of a replay last, else in the order in which they became so. */
  private readonly ready: Array<Item> = []
  private retries = 0
  /** Characters of all bodies. */
  characters = 0
  /** The last event that an earlier holder has passed. */
  private readonly ahead: bigint

  constructor({ ahead, cursor }: Pick<Leased, "cursor" | "ahead">) {
    this.log = new Cursor(cursor)
    this.ahead = ahead
  }

  get size(): number {
    return this.log.count + this.retries + (this.replay?.count ?? 0)
  }

  /** Whether it is to be refilled, whatever a replay has in it. */
  get isLow(): boolean {
    return this.log.count + this.retries <= maxEvents / 2
  }

  /** What to read; the rows of retries may be those that the window has already. */
  get room() {
    const { ahead, log, replay } = this
    const unrecorded = Number(log.readTo - log.recordedTo)
    const replayed = maxReplayed - (replay?.count ?? 0)
    return {
      after: log.readTo,
      ahead,
      events: Math.max(0, Math.min(maxEvents - log.count, maxAhead - unrecorded)),
      retries: maxRetries,
      replay: { round: replay?.round ?? null, after: replay?.readTo ?? null, events: replayed }
    } satisfies Omit<ReadRequest, "maxBytes" | keyof EndpointLease>
  }

  /** Adds the next events, and those of the replay. Returns their items. */
  addEvents(reading: LogReading & Pick<Reading, "replay">, isLimited: boolean): ReadonlyArray<Item> {
    const events = this.addOfLog(reading, this.log, isLimited)
    if (reading.replay === undefined) return events
    if (this.replay?.round !== reading.replay.round) this.replay = new ReplayCursor(reading.replay)
    return [...events, ...this.addOfLog(reading.replay, this.replay, true)]
  }

  /** Adds a due retry, unless the window has it, or has many. Returns whether it did. */
  addRetry(delivery: DueDelivery): boolean {
    if (this.retries >= maxRetries) return false
    if (this.items.find(({ event, round }) => event === delivery.event && round === delivery.round)) return false
    this.retries++
    this.queue(this.add(delivery, undefined).chain)
    return true
  }

  /** How many deliveries may be sent now. */
  get readyCount(): number {
    return this.ready.length
  }

  /** Takes deliveries to be sent, those first that have been ready longest. */
  take(count: number): ReadonlyArray<Item> {
    const taken = this.ready.splice(0, count)
    for (const item of taken) item.state = "sending"
    return taken
  }

  /** Takes the delivery that is due longest. */
  takeProbe(): ReadonlyArray<Item> {
    const dueAt = Math.min(...this.ready.map((item) => item.dueAt))
    const probe = this.ready.findIndex((item) => item.dueAt === dueAt)
    this.ready.unshift(...this.ready.splice(probe, 1))
    return this.take(1)
  }

  /**
   * The events behind an item whose attempt failed: they become retries without an attempt. Retries behind it are
   * forgotten, and read again when they are due.
   */
  takeFollowers(before: Item): ReadonlyArray<Item> {
    const { chain } = before
    const waiting = chain.slice(chain.indexOf(before) + 1).filter(({ state }) => state === "waiting")
    for (const item of waiting) {
      if (item.cursor === undefined) this.remove(item)
      else item.state = "blocked"
    }
    return waiting.filter(({ cursor }) => cursor !== undefined)
  }

  /** Removes a delivery that is recorded: the next one of its chain may be sent. */
  remove(item: Item): void {
    if (!this.items.delete(item)) return
    this.characters -= item.body.length
    const position = item.chain.indexOf(item)
    item.chain.splice(position, 1)
    if (position === 0) this.queue(item.chain)
    if (item.cursor === undefined) this.retries--
    else item.cursor.count--
  }

  /** Whether a cursor may move although nothing is to be recorded: an earlier holder has passed all that was read. */
  get isAhead(): boolean {
    return this.log.isAhead || (this.replay?.isAhead ?? false)
  }

  /** Where the cursors are once all that is being recorded is recorded: before their first event that is not. */
  nextCursors(): Pick<EndpointRecord, "cursor" | "replay"> {
    const { log, replay } = this
    const cursor = this.advance(log)
    if (replay === undefined) return { cursor }
    const replayedTo = this.advance(replay)
    return { cursor, replay: { round: replay.round, cursor: replayedTo < replay.last ? replayedTo : null } }
  }

  private advance(cursor: Cursor): bigint {
    const first = this.items.find((item) => item.cursor === cursor && item.state !== "recording")
    cursor.recordedTo = first === undefined ? cursor.readTo : first.event - 1n
    return cursor.recordedTo
  }

  /** The first delivery of a chain may be sent. One that was ready is not, where another one comes before it. */
  private queue(chain: ReadonlyArray<Item>): void {
    const [first, second] = chain
    if (second !== undefined && this.ready.includes(second)) this.ready.splice(this.ready.indexOf(second), 1)
    if (first?.state !== "waiting") return
    const isLast = isReplayed(first)
    if (this.ready.includes(first)) {
      if (isLast) return
      this.ready.splice(this.ready.indexOf(first), 1)
    }
    const last = this.ready.at(-1)
    if (isLast || last === undefined || !isReplayed(last)) this.ready.push(first)
    else this.ready.splice(this.ready.findIndex(isReplayed), 0, first)
  }

  private addOfLog(reading: LogReading, cursor: Cursor, isLimited: boolean): ReadonlyArray<Item> {
    cursor.read(reading, isLimited)
    cursor.count += reading.events.length
    return reading.events.map((delivery) => {
      const item = this.add(delivery, cursor)
      // behind a new event that was read before there was a retry, it waits for that one
      const isBehind = cursor === this.log && item.chain.some((other) =>
        other !== item && other.cursor === cursor && other.state !== "blocked")
      if (delivery.isBlocked && !isBehind) item.state = "blocked"
      this.queue(item.chain)
      return item
    })
  }

  private add(delivery: DueDelivery, cursor: Cursor | undefined): Item {
    const chainKey = chainKeyOf(delivery)
    const chain = this.items.find((other) => other.chainKey === chainKey)?.chain ?? []
    // the delivery first: V8 copies the first object much faster than others
    const item: Item = { ...delivery, ...unlisted, cursor, state: "waiting", chainKey, chain }
    const next = chain.findIndex((other) =>
      (other.state === "waiting" || other.state === "blocked") && isBefore(item, other))
    chain.splice(next === -1 ? chain.length : next, 0, item)
    this.items.add(item)
    this.characters += item.body.length
    return item
  }
}
