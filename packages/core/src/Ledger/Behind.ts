import { Data } from "effect"
import type { Touched } from "./Load.ts"

/**
 * More is due on these vaults than one transaction applies. The transaction that met it must be rolled back; what is
 * due is applied piece by piece by `Ledger.catchUp`, and then the same work succeeds. Where it became due by an order
 * of the transaction itself, the orders of one event have to be a transaction of their own.
 */
export class Behind extends Data.TaggedError("Behind")<{
  readonly touched: ReadonlyArray<Touched>
  readonly became: "before" | "within"
}> {}
