import { Data } from "effect"
import type { Touched } from "./Load.ts"

/**
 * More rewards are due on these vaults than one transaction applies. The transaction must be rolled back;
 * `Ledger.catchUp` applies the due rewards in several transactions, after which the same work succeeds.
 *
 * `became` says when the rewards became due: `before` the transaction, or `during` it, through its own vault changes.
 * In the second case the caller must apply one event per transaction, so that it can catch up between two events.
 */
export class Behind extends Data.TaggedError("Behind")<{
  readonly touched: ReadonlyArray<Touched>
  readonly became: "before" | "during"
}> {}
