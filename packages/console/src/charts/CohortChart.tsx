import type { Asset } from "@card-rewards/domain/Money"
import { toNumber } from "../format/Money.ts"
import { printDay } from "../format/Time.ts"
import { type Cohort, rewardStates } from "../history/Series.ts"
import { stateNames } from "../ui/Labels.ts"
import { DataTable } from "./DataTable.tsx"
import { Frame, moneyRow } from "./Frame.tsx"

/** Rewards by the period in which they were earned, each column divided by present state. */
export const CohortChart = ({
  asset,
  cohorts,
  measure
}: {
  readonly asset: Asset
  readonly cohorts: ReadonlyArray<Cohort>
  readonly measure: "amount" | "count"
}) => {
  const value = (cohort: Cohort, state: (typeof rewardStates)[number]) =>
    measure === "amount" ? toNumber(cohort.amounts[state], asset) : cohort.counts[state]
  const total = (cohort: Cohort) => rewardStates.reduce((sum, state) => sum + value(cohort, state), 0)
  const from = cohorts[0]?.from ?? 0
  const to = cohorts.at(-1)?.to ?? 1
  const oneDay = cohorts.every((cohort) => cohort.to - cohort.from <= 86_400_000)
  const read = (index: number) => {
    const cohort = cohorts[index]
    if (cohort === undefined) return { title: "", rows: [] }
    return {
      title: oneDay ? printDay(cohort.from) : `${printDay(cohort.from)} to ${printDay(cohort.to - 1)}`,
      rows: rewardStates.map((state) =>
        measure === "amount"
          ? moneyRow(stateNames[state], `s-${state}`, cohort.amounts[state], asset)
          : { label: stateNames[state], color: `s-${state}`, value: String(cohort.counts[state]) }
      )
    }
  }
  const label = `Rewards in ${asset} by the day they were earned, by ${measure}`
  return (
    <>
      <Frame
        label={label}
        from={from}
        to={to}
        max={Math.max(...cohorts.map(total))}
        instants={cohorts.map((cohort) => (cohort.from + cohort.to) / 2)}
        read={read}
      >
        {({ x, y }, selected) =>
          cohorts.map((cohort, index) => {
            let below = 0
            const left = x(cohort.from)
            const width = Math.min(48, Math.max(1, x(cohort.to) - left - 2))
            const offset = (x(cohort.to) - left - width) / 2
            return (
              <g key={cohort.from} data-dim={selected !== undefined && selected !== index} className="column">
                {rewardStates.map((state) => {
                  const amount = value(cohort, state)
                  if (amount === 0) return undefined
                  const top = y(below + amount)
                  const rect = (
                    <rect
                      key={state}
                      className={`bar s-${state}`}
                      x={left + offset}
                      width={width}
                      y={top}
                      height={Math.max(1, y(below) - top - 1)}
                      rx={1.5}
                    />
                  )
                  below += amount
                  return rect
                })}
              </g>
            )
          })
        }
      </Frame>
      <DataTable caption={label} count={cohorts.length} read={read} />
    </>
  )
}
