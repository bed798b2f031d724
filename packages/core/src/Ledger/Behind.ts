import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Data } from "effect"

/** Whose money a transaction is about to touch. */
export interface Touched {
  readonly integratorId: IntegratorId
  readonly userIds: ReadonlySet<string>
  /** Clearings whose rewards will be refunded. */
  readonly clearings: ReadonlyArray<{ readonly userId: string; readonly externalTransactionId: string }>
}

/**
 * More rewards of these integrators are due than one transaction applies. The transaction must roll back; it can be
 * begun again without them, and with them once their due rewards are applied piece by piece.
 */
export class Behind extends Data.TaggedError("Behind")<{
  readonly touched: ReadonlyArray<Touched>
  readonly limit: number
}> {}
