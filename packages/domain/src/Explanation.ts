import { Schema } from "effect"
import { ProgramId } from "./Ids.ts"
import { Amount, Cents } from "./Money.ts"
import { Timestamp } from "./Time.ts"
import { Attributes } from "./User.ts"

/** A cap as it stood before a reward; `left` is the room that it left. Smallest units. */
const Cap = Schema.Struct({
  scope: Schema.Literals(["month", "category"]),
  categoryId: Schema.optionalKey(Schema.String),
  perMonth: Amount,
  usedBefore: Amount,
  left: Amount
})

/** How a reward's amount came about (decisions, section 9): everything that a person needs to compute it again. */
export const Explanation = Schema.Struct({
  rewardId: Schema.String,
  programId: ProgramId,
  programVersion: Schema.Int,
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
  earned: Amount,
  refunds: Schema.Array(Schema.Struct({ externalTransactionId: Schema.String, amount: Cents, reduction: Amount })),
  recoveries: Schema.Array(Schema.Struct({ at: Timestamp, amount: Amount })),
  amount: Amount
}).annotate({ identifier: "Explanation", description: "How a reward's amount came about." })
export type Explanation = typeof Explanation.Type
