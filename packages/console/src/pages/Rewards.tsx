import type { Asset } from "@card-rewards/domain/Money"
import type { Statement } from "@card-rewards/domain/Statement"
import { useState } from "react"
import { Link } from "wouter"
import { FlowChart, periodName, type RewardFlow, rewardFlows } from "../charts/FlowChart.tsx"
import { RangeChoice } from "../statements/RangeChoice.tsx"
import { isEmpty, sum } from "../statements/Statement.ts"
import { useDayRange } from "../statements/useDayRange.ts"
import { useStatement } from "../statements/useStatement.ts"
import { Loaded } from "../ui/Failure.tsx"
import { Money } from "../ui/Money.tsx"
import { Empty, Page, Panel, Stat } from "../ui/Panel.tsx"
import { Segments } from "../ui/Segments.tsx"
import { SetAside } from "./rewards/SetAside.tsx"
import { assetOptions, useAsset } from "./useAsset.ts"

const flowOptions = rewardFlows.map(([flow, name]) => [flow, name] as const)

/** What rewards earned, paid and gave back in a range of days, and the spend events that are not applied yet. */
export const Rewards = () => {
  const [asset, setAsset] = useAsset()
  const choice = useDayRange()
  const [flow, setFlow] = useState<RewardFlow>("earned")
  const statement = useStatement(asset, choice.range)
  return (
    <Page
      title="Rewards"
      lead="A clearing earns a reward. It may wait for funding, is held for a time, becomes claimable and is paid."
      actions={
        <>
          <Segments label="Asset" value={asset} onChange={setAsset} options={assetOptions} />
          <RangeChoice choice={choice} />
        </>
      }
    >
      <Loaded query={statement} lines={8}>
        {(statement) => (
          <>
            <Sums asset={asset} statement={statement} />
            <Panel
              title={`By ${periodName(statement.days.length)}`}
              hint="When it happened, by UTC days; a reward is paid when its user claims it."
              actions={<Segments label="Flow" value={flow} onChange={setFlow} options={flowOptions} />}
            >
              {statement.days.length === 0 || isEmpty(statement) ? (
                <NoRewards asset={asset} />
              ) : (
                <FlowChart asset={asset} flow={flow} statement={statement} />
              )}
            </Panel>
          </>
        )}
      </Loaded>
      <SetAside />
    </Page>
  )
}

const hints: { readonly [flow in RewardFlow]?: string } = {
  refunded: "before payment; after it, owed",
  recovered: "of what users owed"
}

const Sums = ({ asset, statement: { closing, days } }: { readonly asset: Asset; readonly statement: Statement }) => (
  <dl className="stats funnel">
    {rewardFlows.map(([flow, name, color]) => (
      <Stat key={flow} label={name} color={color} hint={hints[flow]}>
        <Money amount={sum(days, flow)} unit={asset} />
      </Stat>
    ))}
    <Stat
      label="Left at the end"
      color="c-reserved"
      hint={
        closing.waiting > 0n ? (
          <>
            and <Money amount={closing.waiting} unit={asset} /> awaiting funding
          </>
        ) : (
          "pending or claimable"
        )
      }
    >
      <Money amount={closing.reserved} unit={asset} />
    </Stat>
  </dl>
)

const NoRewards = ({ asset }: { readonly asset: Asset }) => (
  <Empty
    title={`No rewards in ${asset} in this time`}
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
