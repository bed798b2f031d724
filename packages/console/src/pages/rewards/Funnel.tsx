import type { Asset } from "@card-rewards/domain/Money"
import type { Funnel as Sums } from "../../history/Series.ts"
import { Money } from "../../ui/Money.tsx"
import { Stat } from "../../ui/Panel.tsx"

/** The amounts at each step from earned to paid or refunded. */
export const Funnel = ({ asset, sums }: { readonly asset: Asset; readonly sums: Sums }) => (
  <dl className="stats funnel">
    <Stat label="Earned" hint={`by ${sums.count.toLocaleString("en")} ${sums.count === 1 ? "reward" : "rewards"}`}>
      <Money amount={sums.earned} unit={asset} />
    </Stat>
    <Stat label="Awaiting funding" color="s-AwaitingFunding">
      <Money amount={sums.waiting} unit={asset} />
    </Stat>
    <Stat label="Pending" color="s-Pending">
      <Money amount={sums.pending} unit={asset} />
    </Stat>
    <Stat label="Claimable" color="s-Claimable">
      <Money amount={sums.claimable} unit={asset} />
    </Stat>
    <Stat
      label="Paid"
      color="s-Paid"
      hint={
        sums.recovered > 0n ? (
          <>
            and <Money amount={sums.recovered} unit={asset} /> recovered
          </>
        ) : undefined
      }
    >
      <Money amount={sums.paid} unit={asset} />
    </Stat>
    <Stat
      label="Refunded"
      color="s-Refunded"
      hint={
        sums.owed > 0n ? (
          <>
            <Money amount={sums.owed} unit={asset} /> owed back
          </>
        ) : undefined
      }
    >
      <Money amount={sums.refunded} unit={asset} />
    </Stat>
  </dl>
)
