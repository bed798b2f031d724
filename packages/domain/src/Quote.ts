import { Schema } from "effect"
import { Computation } from "./Explanation.ts"
import { ProgramId } from "./Ids.ts"
import { Amount, Asset, SpendAmount } from "./Money.ts"
import { Merchant } from "./SpendEvent.ts"
import { Timestamp } from "./Time.ts"

/** Request body of `POST /v1/users/{userId}/quotes`: a purchase, at the integrator's present time where absent. */
export const QuoteRequest = Schema.Struct({
  amount: SpendAmount,
  merchant: Merchant,
  occurredAt: Schema.optionalKey(Timestamp)
}).annotate({
  identifier: "QuoteRequest",
  expected: "an object",
  description: "A purchase, as its clearing would describe it; now where `occurredAt` is absent."
})
export type QuoteRequest = typeof QuoteRequest.Type

/** What a clearing would earn in one program; 0 where its rate, or what a cap leaves, is nothing. */
export const Quote = Schema.Struct({
  programId: ProgramId,
  programVersion: Schema.Int,
  asset: Asset,
  amount: Amount,
  explanation: Computation
}).annotate({
  identifier: "Quote",
  description: "What a clearing of the purchase would earn in one program now, and how that is computed. Programs " +
    "that exclude its category code, or for which the user is not eligible, have none."
})
export type Quote = typeof Quote.Type
