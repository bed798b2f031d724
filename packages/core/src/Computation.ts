import type { Evaluation, Usage } from "@card-rewards/domain/Evaluation"
import type { Computation } from "@card-rewards/domain/Explanation"
import type { ProgramVersion } from "@card-rewards/domain/ProgramVersion"
import { printTimestamp } from "@card-rewards/domain/Time"
import type { Attributes } from "@card-rewards/domain/User"

/** What was evaluated, and what the caps had counted before. */
export interface Computed {
  readonly version: ProgramVersion
  readonly purchaseAt: number
  readonly attributes: Attributes
  readonly evaluation: Evaluation
  readonly used: Usage
  readonly earned: bigint
}

/** A computation in its wire format. */
export const encodeComputation = (
  { attributes, earned, evaluation, purchaseAt, used, version }: Computed
): typeof Computation.Encoded => {
  const { bonuses, category, multiplier, rate, raw } = evaluation
  const categoryCap = category === undefined ? undefined : version.categoryCaps.get(category)
  return {
    purchaseTime: printTimestamp(purchaseAt),
    attributes,
    ...(category === undefined ? {} : { category }),
    rate,
    multiplier,
    bonuses,
    raw: raw.toString(),
    caps: [
      { scope: "month", ...cap(version.monthCap, used.month) },
      ...(category === undefined || categoryCap === undefined
        ? []
        : [{ scope: "category" as const, categoryId: category, ...cap(categoryCap, used.category) }])
    ],
    earned: earned.toString()
  }
}

const cap = (perMonth: bigint, used: bigint) => ({
  perMonth: perMonth.toString(),
  usedBefore: used.toString(),
  left: (perMonth > used ? perMonth - used : 0n).toString()
})
