import type { Asset } from "@card-rewards/domain/Money"
import { scaleLinear } from "@visx/scale"
import { toNumber } from "../format/Money.ts"
import { Money } from "../ui/Money.tsx"

/** One row of a comparison. */
export interface Comparison {
  readonly key: string
  readonly paid: bigint
  readonly wouldPay: bigint
}

/** Two bars for each key: what was paid, and what would have been. A table with bars in its second column. */
export const CompareBars = ({
  asset,
  caption,
  empty,
  rows
}: {
  readonly asset: Asset
  readonly caption: string
  /** The label of the empty key. */
  readonly empty: string
  readonly rows: ReadonlyArray<Comparison>
}) => {
  const max = Math.max(...rows.flatMap((row) => [toNumber(row.paid, asset), toNumber(row.wouldPay, asset)]), 0)
  const width = scaleLinear<number>({ domain: [0, max === 0 ? 1 : max], range: [0, 100] })
  return (
    <table className="compare">
      <caption>
        {caption}, in {asset}
      </caption>
      <thead className="sr-only">
        <tr>
          <th scope="col">Key</th>
          <th scope="col">Chart</th>
          <th scope="col">Paid</th>
          <th scope="col">Would pay</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.key}>
            <th scope="row">{row.key === "" ? <span className="muted">{empty}</span> : row.key}</th>
            <td className="compare-bars">
              <svg viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden>
                <rect className="bar c-paid" x={0} y={0} height={7} width={width(toNumber(row.paid, asset))} />
                <rect className="bar c-would" x={0} y={9} height={7} width={width(toNumber(row.wouldPay, asset))} />
              </svg>
            </td>
            <td className="number">
              <Money amount={row.paid} unit={asset} bare />
            </td>
            <td className="number">
              <Money amount={row.wouldPay} unit={asset} strong bare />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
