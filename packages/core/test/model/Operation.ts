import type { Spend } from "./Spend.ts"
import type { AssetName, Attributes, Definition } from "./Rules.ts"

/**
 * One operation of a run. Times and amounts that depend on the state at that moment are resolved when the operation is
 * carried out.
 */
export type Operation =
  | { readonly op: "put"; readonly user: string; readonly attributes: Attributes }
  | {
    readonly op: "publish"
    readonly program: string
    readonly version: number
    /** Added to the clock's current time and rounded up to a multiple of `roundMillis`. */
    readonly leadMillis: number
    readonly roundMillis: number
    readonly definition: Omit<Definition, "effectiveFrom">
  }
  | Omit<Spend, "occurredAt"> & {
    readonly op: "spend"
    readonly agoMillis: number
    /** Whether the event stays in the queue until the next operation that processes events. */
    readonly later: boolean
  }
  | { readonly op: "again"; readonly pick: number }
  | {
    readonly op: "refund"
    readonly transaction: string
    /** Whether to refund a purchase whose reward is paid at least in part, rather than any purchase. */
    readonly ofPaid: boolean
    readonly pick: number
    /** Basis points of the amount that is not refunded yet. */
    readonly share: number
  }
  | { readonly op: "clock"; readonly to: "claimable" | "before" | number }
  | {
    readonly op: "deposit" | "withdraw" | "claim"
    readonly asset: AssetName
    readonly user: string
    readonly reference: string
    readonly amount: Sum
    /** Selects one of the users with claimable money, where `amount` depends on that money. */
    readonly pick?: number
  }
  | { readonly op: "read"; readonly user: string }
  | { readonly op: "worker" }
  | { readonly op: "check" }

/**
 * An amount of a deposit, withdrawal or claim. `first` is the amount of the first waiting reward (deposit), the free
 * money (withdrawal) or all claimable money (claim); `share` is basis points of all waiting, free or claimable money.
 */
export type Sum = "first" | "first-1" | "first+1" | "half" | { readonly share: number } | bigint
