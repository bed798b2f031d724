import type { Kind } from "./Model.ts"
import type { AssetName, Attributes, Definition } from "./Rules.ts"

/** What a run does, one thing after another; times and sums that depend on the moment are resolved when it is done. */
export type Operation =
  | { readonly op: "put"; readonly user: string; readonly attributes: Attributes }
  | {
    readonly op: "publish"
    readonly program: string
    readonly version: number
    /** From the clock's present time, up to the next multiple of `roundMillis`. */
    readonly leadMillis: number
    readonly roundMillis: number
    readonly definition: Omit<Definition, "effectiveFrom">
  }
  | {
    readonly op: "spend"
    readonly user: string
    readonly kind: Kind
    readonly transaction: string
    readonly currency: string
    readonly cents: bigint
    readonly mcc: string
    readonly agoMillis: number
    readonly original?: string
    /** Left in the queue until the next operation that processes. */
    readonly later: boolean
  }
  | { readonly op: "again"; readonly pick: number }
  | {
    readonly op: "refund"
    readonly transaction: string
    /** Of a reward that is paid, in part at least; else of any reward. */
    readonly ofPaid: boolean
    readonly pick: number
    /** Basis points of what is not refunded yet. */
    readonly share: number
  }
  | { readonly op: "clock"; readonly to: "claimable" | "before" | number }
  | {
    readonly op: "deposit" | "withdraw" | "claim"
    readonly asset: AssetName
    readonly user: string
    readonly reference: string
    readonly amount: Sum
    /** Which of the users with claimable money claims, where `amount` is a part of what there is. */
    readonly pick?: number
  }
  | { readonly op: "read"; readonly user: string }
  | { readonly op: "worker" }
  | { readonly op: "check" }

/**
 * `first` is what the first waiting reward needs (deposit), the free money (withdrawal) or all that is claimable;
 * `share` is basis points of all that waits, is free or is claimable.
 */
export type Sum = "first" | "first-1" | "first+1" | "half" | { readonly share: number } | bigint
