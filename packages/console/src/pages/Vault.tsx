import type { Asset } from "@card-rewards/domain/Money"
import type { Statement } from "@card-rewards/domain/Statement"
import { Link } from "wouter"
import { VaultChart } from "../charts/VaultChart.tsx"
import { dateOf, printDay } from "../format/Time.ts"
import { useSession } from "../session/Session.ts"
import { RangeChoice } from "../statements/RangeChoice.tsx"
import { isEmpty, runway } from "../statements/Statement.ts"
import { useDayRange, useLastDays } from "../statements/useDayRange.ts"
import { useStatement } from "../statements/useStatement.ts"
import { Loaded } from "../ui/Failure.tsx"
import { Money } from "../ui/Money.tsx"
import { Empty, Page, Panel, Stat } from "../ui/Panel.tsx"
import { Segments } from "../ui/Segments.tsx"
import { useNow } from "../ui/useNow.ts"
import { assetOptions, moneyOf, useAsset, useVault, type VaultMoney } from "./useAsset.ts"
import { LowFunds } from "./vault/LowFunds.tsx"
import { Movements } from "./vault/Movements.tsx"
import { Outlook } from "./vault/Outlook.tsx"
import { StatementTable } from "./vault/StatementTable.tsx"

/** Days over which the rate of spending is averaged. */
const paceDays = 30

/** The vault's balance, its runway, its statement and its movements. */
export const Vault = () => {
  const [asset, setAsset] = useAsset()
  const choice = useDayRange()
  const now = useNow()
  const vault = useVault()
  const statement = useStatement(asset, choice.range)
  const recent = useStatement(asset, useLastDays(paceDays))
  const money = moneyOf(vault.data?.vault, asset)
  const pace = recent.data && runway(recent.data, money.free, now)
  return (
    <Page
      title="Vault"
      lead="Rewards are reserved from free money as they are earned. What it cannot cover waits, first in, first out."
      actions={<Segments label="Asset" value={asset} onChange={setAsset} options={assetOptions} />}
    >
      <Loaded query={vault}>
        {() => (
          <>
            <Balance money={money} />
            <Outlook money={money} pace={pace} />
          </>
        )}
      </Loaded>
      <Panel
        title="Over time"
        hint="Reserved on top of free, at the end of each UTC day. Dashed: free money at the present pace."
        actions={<RangeChoice choice={choice} />}
      >
        <Loaded query={statement} lines={8}>
          {(statement) => <OverTime asset={asset} statement={statement} now={now} until={pace?.until} />}
        </Loaded>
      </Panel>
      {statement.data !== undefined && !isEmpty(statement.data) && (
        <StatementTable asset={asset} statement={statement.data} />
      )}
      {vault.data !== undefined && <LowFunds key={asset} asset={asset} vault={vault.data.vault} />}
      <Movements asset={asset} />
    </Page>
  )
}

const Balance = ({ money: { asset, free, held, reserved, waiting } }: { readonly money: VaultMoney }) => (
  <dl className="stats">
    <Stat label="Held" color="c-held" hint="everything in the vault">
      <Money amount={held} unit={asset} />
    </Stat>
    <Stat label="Free" color="c-free" hint="not reserved for rewards">
      <Money amount={free} unit={asset} />
    </Stat>
    <Stat label="Reserved" color="c-reserved" hint="for pending and claimable rewards">
      <Money amount={reserved} unit={asset} />
    </Stat>
    <Stat label="Waiting" color="c-waiting" hint={waiting > 0n ? "earned, not covered yet" : "every reward is covered"}>
      <Money amount={waiting} unit={asset} />
    </Stat>
  </dl>
)

const OverTime = ({
  asset,
  now,
  statement,
  until
}: {
  readonly asset: Asset
  readonly statement: Statement
  readonly now: number
  readonly until: number | undefined
}) => {
  if (statement.days.length === 0) return <Empty title="This range has not begun">It is {printDay(now)}, UTC.</Empty>
  if (isEmpty(statement)) return <NothingYet asset={asset} />
  const isToNow = statement.days.at(-1)?.date === dateOf(now)
  return <VaultChart asset={asset} statement={statement} now={now} until={isToNow ? until : undefined} />
}

const NothingYet = ({ asset }: { readonly asset: Asset }) => {
  const { environment } = useSession()
  return environment === "sandbox" ? (
    <Empty
      title={`No ${asset} in this time`}
      action={
        <Link href="/sandbox" className="button primary">
          Simulate a deposit
        </Link>
      }
    >
      {asset === "USDC" ? "USD" : "EUR"} spend earns {asset}, one to one. Rewards are reserved as soon as the vault
      has free money.
    </Empty>
  ) : (
    <Empty title={`No ${asset} in this time`}>
      Once a deposit is confirmed on-chain it appears here, with a <code>vault.deposit_confirmed</code> event.
    </Empty>
  )
}
