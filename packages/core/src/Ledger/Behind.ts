import { Data } from "effect"
import type { Touched } from "./Load.ts"

/**
 * More is due on these vaults than one transaction applies. The transaction that met it must be rolled back; what is due is
 * applied piece by piece by `Ledger.catchUp`, and then the same work succeeds.
 */
export class Behind extends Data.TaggedError("Behind")<{ readonly touched: ReadonlyArray<Touched> }> {}
