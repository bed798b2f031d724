import type { Asset } from "@card-rewards/domain/Money"
import { useState } from "react"
import { Link } from "wouter"
import { CohortChart } from "../../charts/CohortChart.tsx"
import { useHistoryState } from "../../history/HistoryContext.ts"
import { cohorts } from "../../history/Series.ts"
import { Empty, Panel } from "../../ui/Panel.tsx"
import { Segments } from "../../ui/Segments.tsx"
import { useNow } from "../../ui/useNow.ts"
import { type Window, windowOptions, windowStart } from "../useAsset.ts"

/** Rewards by when they were earned, with the choice of measure and span. */
export const Cohorts = ({ asset, isEmpty }: { readonly asset: Asset; readonly isEmpty: boolean }) => {
  const { fold } = useHistoryState()
  const [window, setWindow] = useState<Window>("30")
  const [measure, setMeasure] = useState<"amount" | "count">("amount")
  const now = useNow()
  const earliest = fold.vault[asset].find((point) => point.reserved > 0n || point.waiting > 0n)?.at
  return (
    <Panel
      title="By when they were earned"
      hint="Each column is a cohort, coloured by the states its rewards are in now."
      actions={
        <>
          <Segments
            label="Measure"
            value={measure}
            onChange={setMeasure}
            options={[
              ["amount", "Amount"],
              ["count", "Count"]
            ]}
          />
          <Segments label="Span" value={window} onChange={setWindow} options={windowOptions} />
        </>
      }
    >
      {isEmpty ? (
        <NoRewards asset={asset} />
      ) : (
        <CohortChart
          asset={asset}
          measure={measure}
          cohorts={cohorts(fold, asset, windowStart(window, earliest, now), now)}
        />
      )}
    </Panel>
  )
}

const NoRewards = ({ asset }: { readonly asset: Asset }) => (
  <Empty
    title={`No rewards in ${asset} yet`}
    action={
      <Link href="/programs" className="button">
        See the programs
      </Link>
    }
  >
    Enroll users, publish a program whose version is in force at the purchase, and send clearings to{" "}
    <code>POST /v1/spend-events</code>.
  </Empty>
)
