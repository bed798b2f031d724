import { Schema } from "effect"
import { ProgramId } from "./Ids.ts"
import { Amount, Cents } from "./Money.ts"
import { Timestamp } from "./Time.ts"
import { Attributes } from "./User.ts"

/** A cap before a reward; `left` is the amount that it still allowed. Smallest units. */
const Cap = Schema.Struct({
  scope: Schema.Literals(["month", "category"]),
  categoryId: Schema.optionalKey(Schema.String),
  perMonth: Amount,
  usedBefore: Amount,
  left: Amount
})

/** How the amount of a purchase is computed by a version. */
const computation = {
  purchaseTime: Timestamp,
  attributes: Attributes,
  category: Schema.optionalKey(Schema.String),
  rate: Schema.Struct({
    value: Schema.Int,
    source: Schema.Literals(["tierCategory", "category", "tierBase", "base"])
  }),
  multiplier: Schema.Int,
  bonuses: Schema.Array(Schema.Struct({ campaignId: Schema.String, bonusRate: Schema.Int })),
  raw: Amount,
  caps: Schema.Array(Cap),
  earned: Amount
}

/** How the amount that a purchase would earn is computed; `earned` is that amount. */
export const Computation = Schema.Struct(computation).annotate({
  identifier: "Computation",
  description: "The computation of what a purchase would earn."
})
export type Computation = typeof Computation.Type

/** The computation of a reward's amount (decisions, section 9), with everything that is needed to repeat it. */
export const Explanation = Schema.Struct({
  rewardId: Schema.String,
  programId: ProgramId,
  programVersion: Schema.Int,
  ...computation,
  refunds: Schema.Array(Schema.Struct({ externalTransactionId: Schema.String, amount: Cents, reduction: Amount })),
  recoveries: Schema.Array(Schema.Struct({ at: Timestamp, amount: Amount })),
  amount: Amount
}).annotate({
  identifier: "Explanation",
  description: "The computation of a reward's amount. `refunds` has the first 1,000 refunds of the purchase; " +
    "`amount` counts all."
})
export type Explanation = typeof Explanation.Type
