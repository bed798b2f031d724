import type { Asset } from "@card-rewards/domain/Money"

/** A place in the order in which due rewards are applied: `(claimableAt, creation)`. */
export interface DuePlace {
  /** Milliseconds. */
  readonly claimableAt: number
  readonly creation: bigint
}

/** The order in which rewards become Claimable, and are paid (decisions, section 6). */
export const byDuePlace = (a: DuePlace, b: DuePlace): number => a.claimableAt - b.claimableAt || byCreation(a, b)

/** The order in which waiting rewards are served. */
export const byCreation = (a: Pick<DuePlace, "creation">, b: Pick<DuePlace, "creation">): number =>
  a.creation < b.creation ? -1 : a.creation > b.creation ? 1 : 0

/** The accounts that are kept for each user and asset, in smallest units. */
export type UserAccount = "awaitingFunding" | "pending" | "claimable" | "paid" | "owed"

/** A user's accounts in one asset, and where that user's due and waiting rewards begin. */
export interface UserAccounts extends Record<UserAccount, bigint> {
  /** The first Pending reward by {@link byDuePlace}. */
  firstPending: DuePlace | undefined
  /** Creation of the first AwaitingFunding reward. */
  firstWaiting: bigint | undefined
}

/** Of a user who never had a reward. */
export const noAccounts = (): UserAccounts => ({
  awaitingFunding: 0n,
  pending: 0n,
  claimable: 0n,
  paid: 0n,
  owed: 0n,
  firstPending: undefined,
  firstWaiting: undefined
})

/** A vault's money in one asset; waiting rewards created up to `assignedTo` will be reserved with `assigned`. */
export interface VaultAccounts {
  held: bigint
  free: bigint
  assigned: bigint
  assignedTo: bigint
  /** The integrator's time of the assignment, in milliseconds; what was due by then matures as it is reserved. */
  assignedAt: number | undefined
}

/** The part of a claim that is in balances, vault and journal, and not yet in the rewards that it pays. */
export interface Payout {
  readonly userId: string
  readonly asset: Asset
  /** Of the claim. */
  readonly reference: string
  /** Smallest units that rewards are still to be paid with. */
  readonly amount: bigint
}

/** Waiting rewards are added up by blocks of so many creations. */
const blockSize = 4_096n

/** The block of a reward in `waiting_sums`. */
export const blockOf = (creation: bigint): bigint => creation / blockSize

/** The last creation that belongs to a block. */
export const lastOfBlock = (block: bigint): bigint => (block + 1n) * blockSize - 1n

/** A user and asset within an integrator; the asset comes first, so that the key can be read back. */
export const userKey = (userId: string, asset: Asset): string => `${asset}\0${userId}`

/** Reads a {@link userKey} back. */
export const splitUserKey = (key: string): { readonly asset: Asset; readonly userId: string } => ({
  asset: key.startsWith("USDC") ? "USDC" : "EURe",
  userId: key.slice(5)
})
