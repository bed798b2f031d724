import { moneyParts } from "../format/Money.ts"

/** An exact amount; digits beyond the cent are less prominent, but always shown. */
export const Money = ({
  amount,
  strong = false,
  unit,
  bare = false
}: {
  readonly amount: bigint
  readonly unit: string
  readonly strong?: boolean
  /** Omits the unit, which the column's head names. */
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
