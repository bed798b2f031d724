import type { Asset } from "@card-rewards/domain/Money"
import { toNumber } from "../format/Money.ts"
import { printDay } from "../format/Time.ts"
import { type Cohort, rewardStates } from "../history/Series.ts"
import { stateNames } from "../ui/Labels.ts"
import { DataTable } from "./DataTable.tsx"
import { Frame, moneyRow, type Reading, type Scales } from "./Frame.tsx"

interface CohortChartProps {
  readonly asset: Asset
  readonly cohorts: ReadonlyArray<Cohort>
  readonly measure: "amount" | "count"
}

/** Rewards by the period in which they were earned, each column divided by present state. */
export const CohortChart = (props: CohortChartProps) => {
  const { asset, cohorts, measure } = props
  const stacks = cohorts.map((cohort) => stackOf(cohort, props))
  const read = (index: number) => readingOf(cohorts[index], props)
  const label = `Rewards in ${asset} by the day they were earned, by ${measure}`
  return (
    <>
      <Frame
        label={label}
        from={cohorts[0]?.from ?? 0}
        to={cohorts.at(-1)?.to ?? 1}
        max={Math.max(...stacks.map((stack) => stack.at(-1)?.to ?? 0))}
        instants={cohorts.map((cohort) => (cohort.from + cohort.to) / 2)}
        read={read}
      >
        {(scales, selected) =>
          cohorts.map((cohort, index) => (
            <Column
              key={cohort.from}
              cohort={cohort}
              stack={stacks[index] ?? []}
              scales={scales}
              isDim={selected !== undefined && selected !== index}
            />
          ))
        }
      </Frame>
      <DataTable caption={label} count={cohorts.length} read={read} />
    </>
  )
}

/** The part of a column that shows the rewards of one state, in the units of the chart. */
interface Segment {
  readonly state: (typeof rewardStates)[number]
  readonly from: number
  readonly to: number
}

/** The segments of a column from the bottom up; states without rewards have none. */
const stackOf = (cohort: Cohort, { asset, measure }: CohortChartProps): ReadonlyArray<Segment> => {
  const stack: Array<Segment> = []
  for (const state of rewardStates) {
    const value = measure === "amount" ? toNumber(cohort.amounts[state], asset) : cohort.counts[state]
    const from = stack.at(-1)?.to ?? 0
    if (value !== 0) stack.push({ state, from, to: from + value })
  }
  return stack
}

const readingOf = (cohort: Cohort | undefined, { asset, cohorts, measure }: CohortChartProps): Reading => {
  if (cohort === undefined) return { title: "", rows: [] }
  const isDaily = cohorts.every(({ from, to }) => to - from <= 86_400_000)
  return {
    title: isDaily ? printDay(cohort.from) : `${printDay(cohort.from)} to ${printDay(cohort.to - 1)}`,
    rows: rewardStates.map((state) =>
      measure === "amount"
        ? moneyRow(stateNames[state], `s-${state}`, cohort.amounts[state], asset)
        : { label: stateNames[state], color: `s-${state}`, value: String(cohort.counts[state]) }
    )
  }
}

const Column = ({
  cohort,
  isDim,
  scales: { x, y },
  stack
}: {
  readonly cohort: Cohort
  readonly stack: ReadonlyArray<Segment>
  readonly scales: Scales
  readonly isDim: boolean
}) => {
  const left = x(cohort.from)
  const width = Math.min(48, Math.max(1, x(cohort.to) - left - 2))
  const offset = (x(cohort.to) - left - width) / 2
  return (
    <g data-dim={isDim} className="column">
      {stack.map(({ from, state, to }) => (
        <rect
          key={state}
          className={`bar s-${state}`}
          x={left + offset}
          width={width}
          y={y(to)}
          height={Math.max(1, y(from) - y(to) - 1)}
          rx={1.5}
        />
      ))}
    </g>
  )
}
