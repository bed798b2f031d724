import type { UserAccount } from "@card-rewards/domain/Journal"
import type { Asset } from "@card-rewards/domain/Money"
import type { Totals } from "@card-rewards/domain/Statement"

/** A position in the order in which due rewards are applied: `(claimableAt, creation)`. */
export interface DuePosition {
  /** Milliseconds. */
  readonly claimableAt: number
  readonly creation: bigint
}

/** The order in which rewards become Claimable, and are paid (decisions, section 6). */
export const byDuePosition = (a: DuePosition, b: DuePosition): number =>
  a.claimableAt - b.claimableAt || byCreation(a, b)

/** The order in which waiting rewards are funded. */
export const byCreation = (a: Pick<DuePosition, "creation">, b: Pick<DuePosition, "creation">): number =>
  a.creation < b.creation ? -1 : a.creation > b.creation ? 1 : 0

/** A user's accounts in one asset, in smallest units, and the user's first Pending and first AwaitingFunding reward. */
export interface UserAccounts extends Record<UserAccount, bigint> {
  /** The first Pending reward by {@link byDuePosition}. */
  firstPending: DuePosition | undefined
  /** Creation of the first AwaitingFunding reward. */
  firstWaiting: bigint | undefined
}

/** The accounts of a user without rewards. */
export const noAccounts = (): UserAccounts => ({
  awaitingFunding: 0n,
  pending: 0n,
  claimable: 0n,
  paid: 0n,
  owed: 0n,
  firstPending: undefined,
  firstWaiting: undefined
})

/** A vault's money in one asset, in smallest units, and all of its movements until now. */
export interface VaultAccounts extends Totals {
  held: bigint
  free: bigint
  /** Money set apart for the waiting rewards created up to `assignedTo`; later transactions reserve them. */
  assigned: bigint
  assignedTo: bigint
  /** The integrator's time of the assignment, in milliseconds; a reward due by then matures when it is reserved. */
  assignedAt: number | undefined
  /** The UTC day of the last change, in days since 1970; absent where there was none. */
  day: number | undefined
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
const blockSize = 4_096n

/** The block of `waiting_sums` that counts a reward. */
export const blockOf = (creation: bigint): bigint => creation / blockSize

/** The last creation of a block. */
export const lastOfBlock = (block: bigint): bigint => (block + 1n) * blockSize - 1n

/** Map key of a user and asset within an integrator. The asset comes first: {@link splitUserKey} depends on that. */
export const userKey = (userId: string, asset: Asset): string => `${asset}\0${userId}`

/** Parses a {@link userKey}. */
export const splitUserKey = (key: string): { readonly asset: Asset; readonly userId: string } => ({
  asset: key.startsWith("USDC") ? "USDC" : "EURe",
  userId: key.slice(5)
})
