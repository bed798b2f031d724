import type { Asset } from "@card-rewards/domain/Money"
import type { Statement, StatementBalance } from "@card-rewards/domain/Statement"
import { dayMillis } from "@card-rewards/domain/Time"
import { Area, LinePath } from "@visx/shape"
import { toNumber } from "../format/Money.ts"
import { printDay, startOfDate } from "../format/Time.ts"
import { DataTable } from "./DataTable.tsx"
import { Frame, moneyRow, type Scales } from "./Frame.tsx"

interface VaultChartProps {
  readonly asset: Asset
  readonly statement: Statement
  readonly now: number
  /** When free money is used up at the present rate; only for a statement up to now. */
  readonly until: number | undefined
}

/** Held money as free and reserved, rewards that await funding, and when free money is used up. */
export const VaultChart = ({ asset, now, statement, until }: VaultChartProps) => {
  const points = pointsOf(statement, now)
  const [from, to] = [points[0]?.at ?? now, points.at(-1)?.at ?? now]
  const ahead = until === undefined ? to : Math.min(until, to + (to - from) / 2)
  const number = (amount: bigint) => toNumber(amount, asset)
  const label = `Vault in ${asset} over time`
  const read = (index: number) => readingOf(points[index], asset)
  return (
    <>
      <Frame
        label={label}
        from={from}
        to={ahead}
        max={Math.max(...points.map(({ held, waiting }) => Math.max(number(held), number(waiting))))}
        instants={points.map(({ at }) => at)}
        read={read}
      >
        {(scales) => (
          <>
            <Levels points={points} scales={scales} number={number} />
            {until !== undefined && statement.closing.free > 0n && (
              <Projection free={number(statement.closing.free)} now={to} until={until} ahead={ahead} scales={scales} />
            )}
          </>
        )}
      </Frame>
      <DataTable caption={label} count={points.length} read={read} />
    </>
  )
}

/** The vault's balance at an instant. */
type Point = StatementBalance & { readonly at: number; readonly title: string }

/** The opening balance, and the closing balance of each day; that of today is the present one. */
const pointsOf = ({ days, from, opening }: Statement, now: number): ReadonlyArray<Point> => {
  const start = startOfDate(from)
  return [
    { ...opening, at: start, title: `${printDay(start)}, opening` },
    ...days.map(({ closing, date }) => {
      const start = startOfDate(date)
      const end = start + dayMillis
      return now < end
        ? { ...closing, at: Math.max(start, now), title: `${printDay(start)}, now` }
        : { ...closing, at: end, title: `${printDay(start)}, closing` }
    })
  ]
}

const readingOf = (point: Point | undefined, asset: Asset) => ({
  title: point?.title ?? "",
  rows: [
    moneyRow("Held", "c-held", point?.held ?? 0n, asset),
    moneyRow("Free", "c-free", point?.free ?? 0n, asset),
    moneyRow("Reserved", "c-reserved", point?.reserved ?? 0n, asset),
    moneyRow("Waiting", "c-waiting", point?.waiting ?? 0n, asset)
  ]
})

const Levels = ({
  number,
  points,
  scales: { height, x, y }
}: {
  readonly points: ReadonlyArray<Point>
  readonly scales: Scales
  readonly number: (amount: bigint) => number
}) => {
  const at = (point: Point) => x(point.at)
  const free = (point: Point) => y(number(point.free))
  const held = (point: Point) => y(number(point.held))
  return (
    <>
      <Area data={[...points]} x={at} y0={height} y1={free} className="area c-free" />
      <Area data={[...points]} x={at} y0={free} y1={held} className="area c-reserved" />
      <LinePath data={[...points]} x={at} y={held} className="line c-held" />
      {points.some(({ waiting }) => waiting > 0n) && (
        <LinePath data={[...points]} x={at} y={(point) => y(number(point.waiting))} className="line c-waiting" />
      )}
    </>
  )
}

/** The forecast from today's free money to zero without a deposit, as far as the chart reaches. */
const Projection = ({
  ahead,
  free,
  now,
  scales: { height, x, y },
  until
}: {
  readonly free: number
  readonly now: number
  readonly until: number
  readonly ahead: number
  readonly scales: Scales
}) => {
  const left = free * (1 - (ahead - now) / Math.max(1, until - now))
  return (
    <>
      <line className="now" x1={x(now)} x2={x(now)} y1={0} y2={height} />
      <path className="line projected" d={`M${x(now)},${y(free)}L${x(ahead)},${y(left)}`} />
    </>
  )
}
