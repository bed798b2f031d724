import type { Asset } from "@card-rewards/domain/Money"
import { Area, LinePath } from "@visx/shape"
import type { VaultPoint } from "../history/Fold.ts"
import { sample } from "../history/Series.ts"
import { toNumber } from "../format/Money.ts"
import { printTime } from "../format/Time.ts"
import { DataTable } from "./DataTable.tsx"
import { Frame, moneyRow } from "./Frame.tsx"

interface VaultChartProps {
  readonly asset: Asset
  readonly points: ReadonlyArray<VaultPoint>
  readonly from: number
  readonly now: number
  /** When free money is used up at the present rate. */
  readonly until: number | undefined
}

const samples = 160

/** Held money as free and reserved, rewards that await funding, and when free money is used up. */
export const VaultChart = ({ asset, from, now, points, until }: VaultChartProps) => {
  const drawn = sample(points, from, now, samples)
  const ahead = until === undefined ? now : Math.min(until, now + (now - from) / 2)
  const last = drawn.at(-1)
  const number = (amount: bigint) => toNumber(amount, asset)
  const max = Math.max(...drawn.map((point) => Math.max(number(point.held), number(point.waiting))))
  const read = (index: number) => {
    const point = drawn[index] ?? { at: now, held: 0n, free: 0n, reserved: 0n, waiting: 0n }
    return {
      title: printTime(point.at),
      rows: [
        moneyRow("Held", "c-held", point.held, asset),
        moneyRow("Free", "c-free", point.free, asset),
        moneyRow("Reserved", "c-reserved", point.reserved, asset),
        moneyRow("Waiting", "c-waiting", point.waiting, asset)
      ]
    }
  }
  return (
    <>
      <Frame
        label={`Vault in ${asset} over time`}
        from={from}
        to={Math.max(ahead, now)}
        max={max}
        instants={drawn.map((point) => point.at)}
        read={read}
      >
        {({ height, x, y }) => {
          const at = (point: VaultPoint) => x(point.at)
          const points = steps(drawn)
          return (
            <>
              <Area data={points} x={at} y0={height} y1={(point) => y(number(point.free))} className="area c-free" />
              <Area
                data={points}
                x={at}
                y0={(point) => y(number(point.free))}
                y1={(point) => y(number(point.held))}
                className="area c-reserved"
              />
              <LinePath data={points} x={at} y={(point) => y(number(point.held))} className="line c-held" />
              {max > 0 && points.some((point) => point.waiting > 0n) && (
                <LinePath data={points} x={at} y={(point) => y(number(point.waiting))} className="line c-waiting" />
              )}
              {until !== undefined && last !== undefined && last.free > 0n && (
                <>
                  <line className="now" x1={x(now)} x2={x(now)} y1={0} y2={height} />
                  <path
                    className="line projected"
                    d={projection(last, { now, until, ahead, x, y: (amount) => y(number(amount)) })}
                  />
                </>
              )}
            </>
          )
        }}
      </Frame>
      <DataTable caption={`Vault in ${asset} over time`} count={drawn.length} read={read} />
    </>
  )
}

/** A step function: a value holds until the next instant. */
const steps = (points: ReadonlyArray<VaultPoint>): Array<VaultPoint> =>
  points.flatMap((point, index) => {
    const before = points[index - 1]
    return before === undefined ||
      (before.held === point.held && before.free === point.free && before.waiting === point.waiting)
      ? [point]
      : [{ ...before, at: point.at }, point]
  })

/** The forecast from today's free money to zero without a deposit. */
const projection = (
  last: VaultPoint,
  to: { now: number; until: number; ahead: number; x: (at: number) => number; y: (amount: bigint) => number }
): string => {
  const share = Math.min(1, (to.ahead - to.now) / Math.max(1, to.until - to.now))
  const free = last.free - (BigInt(Math.round(share * 10_000)) * last.free) / 10_000n
  return `M${to.x(to.now)},${to.y(last.free)}L${to.x(to.ahead)},${to.y(free)}`
}
