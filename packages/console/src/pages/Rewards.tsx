import { useHistoryState } from "../history/HistoryContext.ts"
import { funnel } from "../history/Series.ts"
import { Page } from "../ui/Panel.tsx"
import { Segments } from "../ui/Segments.tsx"
import { Cohorts } from "./rewards/Cohorts.tsx"
import { Funnel } from "./rewards/Funnel.tsx"
import { SetAside } from "./rewards/SetAside.tsx"
import { assetOptions, useAsset } from "./useAsset.ts"

/** The amounts at each step from spend events to paid rewards. */
export const Rewards = () => {
  const { fold } = useHistoryState()
  const [asset, setAsset] = useAsset()
  const sums = funnel(fold, asset)
  return (
    <Page
      title="Rewards"
      lead="A clearing earns a reward. It may wait for funding, is held for a time, becomes claimable and is paid."
      actions={<Segments label="Asset" value={asset} onChange={setAsset} options={assetOptions} />}
    >
      <Funnel asset={asset} sums={sums} />
      <Cohorts asset={asset} isEmpty={sums.count === 0} />
      <SetAside />
    </Page>
  )
}
