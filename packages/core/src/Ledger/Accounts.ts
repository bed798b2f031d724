import type { UserAccount } from "@card-rewards/domain/Journal"
import type { IntegratorId, VaultId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import type { Totals } from "@card-rewards/domain/Statement"
import { earliestMillis } from "@card-rewards/domain/Time"
import type { RowVersion } from "../Database/Table.ts"

/** A position in the order in which due rewards are applied: `(claimableAt, creation)`. */
export interface DuePosition {
  /** Milliseconds. */
  readonly claimableAt: number
  readonly creation: bigint
}

/** Before every reward: the year 1. */
export const beforeAll: DuePosition = { claimableAt: earliestMillis, creation: 0n }

/** The order in which rewards become Claimable, and are paid (decisions, section 6). */
export const byDuePosition = (a: DuePosition, b: DuePosition): number =>
  a.claimableAt - b.claimableAt || byCreation(a, b)

/** The order in which waiting rewards are funded. */
export const byCreation = (a: Pick<DuePosition, "creation">, b: Pick<DuePosition, "creation">): number =>
  a.creation < b.creation ? -1 : a.creation > b.creation ? 1 : 0

/** A user's accounts in one asset, in smallest units, as a transaction has read and changed them. */
export interface UserAccounts extends Record<UserAccount, bigint> {
  readonly userId: string
  readonly asset: Asset
  /** The first Pending reward by {@link byDuePosition}. */
  firstPending: DuePosition | undefined
  /** Creation of the first AwaitingFunding reward. */
  firstWaiting: bigint | undefined
  /** The version of the row that was read; absent where none is stored. */
  stored: RowVersion | undefined
  /** Whether the transaction has moved money of the user. */
  isChanged: boolean
  /** Whether one of the first rewards left its state: the write of the book looks the next one up. */
  areFirstsOutdated: boolean
}

/** The accounts of a user without rewards. */
export const noAccounts = (userId: string, asset: Asset): UserAccounts => ({
  userId,
  asset,
  awaitingFunding: 0n,
  pending: 0n,
  claimable: 0n,
  paid: 0n,
  owed: 0n,
  firstPending: undefined,
  firstWaiting: undefined,
  stored: undefined,
  isChanged: false,
  areFirstsOutdated: false
})

/** A vault's money in one asset, in smallest units, and all of its movements until now. */
export interface VaultAccounts extends Totals, RowVersion {
  held: bigint
  free: bigint
  /** Money set apart for the waiting rewards created up to `assignedTo`; later transactions reserve them. */
  assigned: bigint
  assignedTo: bigint
  /** The integrator's time of the assignment, in milliseconds; a reward due by then matures when it is reserved. */
  assignedAt: number | null
  /** The UTC day of the last change, in days since 1970; null where there was none. */
  readonly day: number | null
}

/** The state that decides about an event `vault.low_funds` of one asset; see {@link isFallen}. */
export interface LowFunds {
  readonly threshold: bigint
  /** Free money before the transaction. */
  readonly freeBefore: bigint
}

/** Whether free money has fallen below its threshold. */
export const isFallen = ({ freeBefore, threshold }: LowFunds, free: bigint): boolean =>
  freeBefore >= threshold && free < threshold

/** The state of a vault, read under its lock, that a book starts from. */
export interface OpenedVault {
  readonly integratorId: IntegratorId
  readonly vaultId: VaultId
  /** The integrator's clock, read under the lock; milliseconds. */
  readonly now: number
  /** How far that clock is ahead of real time, in milliseconds. */
  readonly offsetMillis: number
  readonly creations: bigint
  /** The version of its row, the numbers of the last stored entry and event, and what the ids of events begin with. */
  readonly stored: RowVersion & { readonly entries: bigint; readonly events: bigint; readonly salt: string }
  readonly workAt: number | undefined
  readonly hasPayouts: boolean
  readonly vault: Readonly<Record<Asset, VaultAccounts>>
  readonly lowFunds: ReadonlyMap<Asset, LowFunds>
  /** Due, assigned or claimed rewards that this transaction may apply. */
  readonly budget: number
}

/** The part of a claim that the balances, the vault and the journal show as paid, and the rewards do not yet. */
export interface Payout {
  readonly userId: string
  readonly asset: Asset
  /** The reference of the claim. */
  readonly reference: string
  /** Smallest units still to be distributed over the user's rewards. */
  readonly amount: bigint
}

/** The table `waiting_sums` has one sum for each block of this many creations. */
export const blockSize = 256n

/** The block of `waiting_sums` that counts a reward. */
export const blockOf = (creation: bigint): bigint => creation / blockSize

/** The last creation of a block. */
export const lastOfBlock = (block: bigint): bigint => (block + 1n) * blockSize - 1n
