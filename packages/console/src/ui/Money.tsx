import { moneyParts } from "../format/Money.ts"

/** An exact amount: what is finer than a cent is drawn back, never left out. */
export const Money = ({
  amount,
  strong = false,
  unit,
  bare = false
}: {
  readonly amount: bigint
  readonly unit: string
  readonly strong?: boolean
  /** Without the unit, where a column's head names it. */
  readonly bare?: boolean
}) => {
  const { main, rest } = moneyParts(amount, unit)
  return (
    <span className={strong ? "money strong" : "money"} data-zero={amount === 0n}>
      {main}
      {rest !== "" && <span className="money-rest">{rest}</span>}
      {!bare && <span className="unit"> {unit}</span>}
    </span>
  )
}
