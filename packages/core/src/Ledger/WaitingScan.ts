import { blockOf } from "./Accounts.ts"

/** How a transaction has changed the waiting rewards of one asset. */
export class WaitingChanges {
  /** By block of creations; see `waiting_sums`. */
  readonly blocks = new Map<bigint, bigint>()
  private readonly rewards = new Map<bigint, bigint>()

  add(creation: bigint, change: bigint): void {
    this.rewards.set(creation, this.ofReward(creation) + change)
    this.blocks.set(blockOf(creation), this.ofBlock(blockOf(creation)) + change)
  }

  ofReward(creation: bigint): bigint {
    return this.rewards.get(creation) ?? 0n
  }

  ofBlock(block: bigint): bigint {
    return this.blocks.get(block) ?? 0n
  }
}

/**
 * How far a transaction's assignments have read the stored waiting rewards of one asset: what was read and is not
 * assigned yet stays here for the next assignment.
 */
export class WaitingScan {
  /** The next rewards, of one block, in order of creation. */
  rewards: Array<{ readonly creation: bigint; readonly amount: bigint }> = []
  /** The sums of the next blocks. */
  sums: Array<{ readonly block: bigint; readonly amount: bigint }> = []
  /** The last block that was read; undefined before the first. */
  readTo: bigint | undefined
  areAllRead = false
}
