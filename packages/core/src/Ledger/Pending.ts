import type { Asset } from "@card-rewards/domain/Money"
import type { Move } from "@card-rewards/domain/Journal"

/** A journal entry that is still to be written. */
export interface Entry extends Move {
  readonly asset: Asset
  readonly userId: string | undefined
  readonly reward: bigint | undefined
  readonly reference: string | undefined
}

/** An event that is still to be written; `data` is encoded JSON. */
export interface PendingEvent {
  readonly kind: string
  readonly data: string
  readonly reward: bigint | undefined
}

/** The record of an operation on the vault, beside its journal entries. */
export interface VaultOperation {
  readonly kind: "deposit" | "withdrawal" | "claim"
  readonly reference: string
  readonly asset: Asset
  readonly amount: bigint
  readonly userId?: string
  /** What a claim paid of its first rewards, and how many rewards it pays in total. */
  readonly rewards?: Array<{ readonly id: string; readonly amount: string }>
  rewardCount?: number
}
