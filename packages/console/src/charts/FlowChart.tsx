import type { Asset } from "@card-rewards/domain/Money"
import type { Movements, Statement } from "@card-rewards/domain/Statement"
import { dayMillis } from "@card-rewards/domain/Time"
import { toNumber } from "../format/Money.ts"
import { printDay, startOfDate } from "../format/Time.ts"
import { type StatementDay, sum } from "../statements/Statement.ts"
import { DataTable } from "./DataTable.tsx"
import { Frame, moneyRow, type Reading, type Scales } from "./Frame.tsx"

/** The flows of rewards, with their names and colours. */
export const rewardFlows = [
  ["earned", "Earned", "s-Pending"],
  ["matured", "Became claimable", "s-Claimable"],
  ["claims", "Paid", "s-Paid"],
  ["refunded", "Refunded", "s-Refunded"],
  ["recovered", "Recovered", "c-waiting"]
] as const satisfies ReadonlyArray<readonly [keyof Movements, string, string]>
export type RewardFlow = (typeof rewardFlows)[number][0]

/** More columns would be too narrow to point at. */
const maxColumns = 60

/** How many days a column shows, so that there are not too many of them. */
const periodLength = (days: number): number => [1, 2, 7, 14].find((length) => days / length <= maxColumns) ?? 28

/** What a column of a statement of so many days shows, such as `day` or `7 days`. */
export const periodName = (days: number): string => {
  const length = periodLength(days)
  return length === 1 ? "day" : `${length} days`
}

/** One flow of rewards, a column for each day; in a long statement for each two days or more. */
export const FlowChart = ({
  asset,
  flow,
  statement
}: {
  readonly asset: Asset
  readonly flow: RewardFlow
  readonly statement: Statement
}) => {
  const periods = periodsOf(statement.days)
  const [, name = "", color = ""] = rewardFlows.find(([key]) => key === flow) ?? []
  const label = `${name} in ${asset} by ${periodName(statement.days.length)}`
  const read = (index: number) => readingOf(periods[index], asset)
  return (
    <>
      <Frame
        label={label}
        from={periods[0]?.from ?? 0}
        to={periods.at(-1)?.to ?? 1}
        max={Math.max(...periods.map(({ days }) => toNumber(sum(days, flow), asset)))}
        instants={periods.map(({ from, to }) => (from + to) / 2)}
        read={read}
      >
        {(scales, selected) =>
          periods.map((period, index) => (
            <Column
              key={period.from}
              period={period}
              amount={toNumber(sum(period.days, flow), asset)}
              color={color}
              scales={scales}
              isDim={selected !== undefined && selected !== index}
            />
          ))
        }
      </Frame>
      <DataTable caption={label} count={periods.length} read={read} />
    </>
  )
}

/** Days that one column shows. */
interface Period {
  readonly from: number
  readonly to: number
  readonly days: ReadonlyArray<StatementDay>
}

const periodsOf = (days: ReadonlyArray<StatementDay>): ReadonlyArray<Period> => {
  const length = periodLength(days.length)
  return Array.from({ length: Math.ceil(days.length / length) }, (_, index) => {
    const own = days.slice(index * length, (index + 1) * length)
    const from = startOfDate(own[0]?.date ?? "")
    return { from, to: from + length * dayMillis, days: own }
  })
}

const readingOf = (period: Period | undefined, asset: Asset): Reading => {
  if (period === undefined) return { title: "", rows: [] }
  const last = period.from + (period.days.length - 1) * dayMillis
  return {
    title: period.days.length === 1 ? printDay(period.from) : `${printDay(period.from)} to ${printDay(last)}`,
    rows: rewardFlows.map(([flow, name, color]) => moneyRow(name, color, sum(period.days, flow), asset))
  }
}

const Column = ({
  amount,
  color,
  isDim,
  period: { from, to },
  scales: { x, y }
}: {
  readonly period: Period
  readonly amount: number
  readonly color: string
  readonly scales: Scales
  readonly isDim: boolean
}) => {
  const space = x(to) - x(from)
  const width = Math.min(48, Math.max(1, space - 2))
  return (
    <g data-dim={isDim} className="column">
      {amount > 0 && (
        <rect
          className={`bar ${color}`}
          x={x(from) + (space - width) / 2}
          width={width}
          y={y(amount)}
          height={Math.max(1, y(0) - y(amount))}
          rx={1.5}
        />
      )}
    </g>
  )
}
