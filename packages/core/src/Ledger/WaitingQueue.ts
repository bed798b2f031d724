import { type RewardRow, rewardKey } from "./RewardRow.ts"

/** Rewards that wait, in order of creation: read from the database page by page, then those of this transaction. */
export class WaitingQueue {
  /** Creation of the last one read. */
  readUpTo = 0n
  /** Whether there are no more to read. */
  readAll = false
  private stored: Array<string> = []
  private readonly added: Array<string> = []

  /** The first one's key; undefined where the next page must be read first, or where none waits. */
  first(): string | undefined {
    return this.stored[0] ?? (this.readAll ? this.added[0] : undefined)
  }

  /** Takes the first one out: it waits no longer. */
  shift(): void {
    if (this.stored.shift() === undefined) this.added.shift()
  }

  /** Takes a page that was read, the longest waiting first. */
  read(rows: ReadonlyArray<RewardRow>, pageSize: number): void {
    this.stored = rows.map(rewardKey)
    this.readUpTo = rows.at(-1)?.creation ?? this.readUpTo
    this.readAll = rows.length < pageSize
  }

  /** Adds a reward of this transaction. */
  push(row: RewardRow): void {
    this.added.push(rewardKey(row))
  }
}
