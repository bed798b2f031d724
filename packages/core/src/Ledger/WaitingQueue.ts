import { type RewardRow, rewardKey } from "./RewardRow.ts"

/** Waiting rewards in order of creation: those of the database, read page by page, then those of this transaction. */
export class WaitingQueue {
  /** Creation of the last reward read. */
  readUpTo = 0n
  /** Whether all stored rewards were read. */
  readAll = false
  /** Keys of the first rewards that this transaction created. */
  readonly created: Array<string> = []
  private stored: Array<string> = []

  /** Key of the first reward; undefined where the next page must be read first, or where no reward waits. */
  first(): string | undefined {
    return this.stored[0] ?? (this.readAll ? this.created[0] : undefined)
  }

  /** Removes the first reward. */
  shift(): void {
    if (this.stored.shift() === undefined) this.created.shift()
  }

  /** Adds a page that was read, the oldest reward first. */
  read(rows: ReadonlyArray<RewardRow>, pageSize: number): void {
    this.stored = rows.map(rewardKey)
    this.readUpTo = rows.at(-1)?.creation ?? this.readUpTo
    this.readAll = rows.length < pageSize
  }

  /** Adds a reward that this transaction created. */
  push(row: RewardRow): void {
    this.created.push(rewardKey(row))
  }
}
