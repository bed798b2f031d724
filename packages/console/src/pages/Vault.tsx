import type { Asset } from "@card-rewards/domain/Money"
import { useState } from "react"
import { Link } from "wouter"
import { VaultChart } from "../charts/VaultChart.tsx"
import { printMoney } from "../format/Money.ts"
import { isMovement, type Movement } from "../history/Fold.ts"
import { useHistoryState } from "../history/HistoryContext.ts"
import { type Runway, runway } from "../history/Series.ts"
import { useRead } from "../session/Query.ts"
import { useSession } from "../session/Session.ts"
import { Failure } from "../ui/Failure.tsx"
import { eventNames } from "../ui/Labels.ts"
import { Money } from "../ui/Money.tsx"
import { Badge, Empty, Page, Panel, Stat } from "../ui/Panel.tsx"
import { Segments } from "../ui/Segments.tsx"
import { Head, NumberHead, Table, TimeHead } from "../ui/Table.tsx"
import { useNow } from "../ui/useNow.ts"
import { When } from "../ui/When.tsx"
import { userPath } from "./Paths.ts"
import { assetOptions, useAsset, type Window, windowOptions, windowStart } from "./useAsset.ts"

const movementsShown = 12

/** The vault's balance, its runway and its movements. */
export const Vault = () => {
  const { fold } = useHistoryState()
  const [asset, setAsset] = useAsset()
  const [window, setWindow] = useState<Window>("30")
  const now = useNow()
  const points = fold.vault[asset]
  const { error, held, free } = useVaultBalance(asset)
  const waiting = points.at(-1)?.waiting ?? 0n
  const pace = runway(fold, asset, free, now)
  return (
    <Page
      title="Vault"
      lead="Rewards are reserved from free money as they are earned. What it cannot cover waits, first in, first out."
      actions={<Segments label="Asset" value={asset} onChange={setAsset} options={assetOptions} />}
    >
      {error !== undefined && <Failure error={error} />}
      <dl className="stats">
        <Stat label="Held" color="c-held" hint="everything in the vault">
          <Money amount={held} unit={asset} />
        </Stat>
        <Stat label="Free" color="c-free" hint="not reserved for rewards">
          <Money amount={free} unit={asset} />
        </Stat>
        <Stat label="Reserved" color="c-reserved" hint="for pending and claimable rewards">
          <Money amount={held - free} unit={asset} />
        </Stat>
        <Stat
          label="Waiting"
          color="c-waiting"
          hint={waiting > 0n ? "earned, not covered yet" : "every reward is covered"}
        >
          <Money amount={waiting} unit={asset} />
        </Stat>
      </dl>
      <Outlook asset={asset} free={free} waiting={waiting} pace={pace} />
      <Panel
        title="Over time"
        hint="Reserved on top of free, from the event log. Dashed: free money at the present pace without a deposit."
        actions={<Segments label="Span" value={window} onChange={setWindow} options={windowOptions} />}
      >
        {points.length === 0 ? (
          <NothingYet asset={asset} />
        ) : (
          <VaultChart
            asset={asset}
            points={points}
            from={windowStart(window, points[0]?.at, now)}
            now={now}
            until={pace?.until}
          />
        )}
      </Panel>
      <Movements asset={asset} />
    </Page>
  )
}

/** Read from the sandbox's vault; in production derived from the events. */
const useVaultBalance = (asset: Asset) => {
  const { environment } = useSession()
  const { fold } = useHistoryState()
  const vault = useRead(["vault"], (api) => api.sandbox.vault(), {
    everyMillis: 5_000,
    enabled: environment === "sandbox"
  })
  const reported = vault.data?.balances.find((balance) => balance.asset === asset)
  const derived = fold.vault[asset].at(-1)
  return {
    held: reported?.held ?? derived?.held ?? 0n,
    free: reported?.free ?? derived?.free ?? 0n,
    error: vault.error ?? undefined
  }
}

/** The runway in a sentence, with the action to take. */
const Outlook = ({
  asset,
  free,
  pace,
  waiting
}: {
  readonly asset: Asset
  readonly free: bigint
  readonly waiting: bigint
  readonly pace: Runway | undefined
}) => {
  const { environment } = useSession()
  const deposit =
    environment === "sandbox" ? (
      <Link href="/sandbox" className="button">
        Simulate a deposit
      </Link>
    ) : undefined
  if (waiting > 0n) {
    const missing = waiting > free ? waiting - free : waiting
    return (
      <div className="outlook warn">
        <p>
          <b>Free money is short.</b> A deposit of {printMoney(missing, asset)} covers every reward that waits.
        </p>
        {deposit}
      </div>
    )
  }
  if (pace === undefined) return undefined
  const rate = `${printMoney(pace.perDay, asset)} a day over the last ${pace.days === 1 ? "day" : `${pace.days} days`}`
  return (
    <div className="outlook">
      <p>
        {pace.until === undefined ? (
          <>
            <b>Runway of more than ten years</b> at {rate}.
          </>
        ) : (
          <>
            <b>
              Free money lasts until <When at={pace.until} part="day" />
            </b>{" "}
            at {rate}.
          </>
        )}
      </p>
    </div>
  )
}

const NothingYet = ({ asset }: { readonly asset: Asset }) => {
  const { environment } = useSession()
  return environment === "sandbox" ? (
    <Empty
      title={`No ${asset} yet`}
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
    <Empty title={`No ${asset} yet`}>
      Once a deposit is confirmed on-chain it appears here, with a <code>vault.deposit_confirmed</code> event.
    </Empty>
  )
}

const Movements = ({ asset }: { readonly asset: Asset }) => {
  const { fold } = useHistoryState()
  const [shown, setShown] = useState(movementsShown)
  const all = fold.events
    .filter((event): event is Movement => isMovement(event) && event.data.amount.asset === asset)
    .reverse()
  if (all.length === 0) return undefined
  return (
    <Panel title="Movements" hint="Deposits, withdrawals and claims, latest first, with what each left." flush>
      <Table
        label="Movements"
        heads={
          <>
            <TimeHead>When</TimeHead>
            <Head>Movement</Head>
            <Head>Reference</Head>
            <NumberHead>Amount</NumberHead>
            <NumberHead>Held after</NumberHead>
            <NumberHead>Free after</NumberHead>
          </>
        }
      >
        {all.slice(0, shown).map((movement) => (
          <MovementRow key={movement.id} movement={movement} />
        ))}
      </Table>
      {all.length > shown && (
        <button type="button" className="link more" onClick={() => setShown(shown * 2)}>
          Show more of {all.length}
        </button>
      )}
    </Panel>
  )
}

const MovementRow = ({ movement: { createdAt, data, kind } }: { readonly movement: Movement }) => {
  const isDeposit = kind === "vault.deposit_confirmed"
  const { asset, amount } = data.amount
  return (
    <tr>
      <td>
        <When at={createdAt} />
      </td>
      <td>
        <Badge tone={isDeposit ? "good" : "plain"}>{eventNames[kind]}</Badge>
        {"userId" in data && (
          <>
            {" "}
            by <Link href={userPath(data.userId)}>{data.userId}</Link>
          </>
        )}
      </td>
      <td className="mono">{data.reference}</td>
      <td className="number">
        {isDeposit ? "+" : "−"}
        <Money amount={amount} unit={asset} strong />
      </td>
      <td className="number">
        <Money amount={data.balance.held} unit={asset} bare />
      </td>
      <td className="number">
        <Money amount={data.balance.free} unit={asset} bare />
      </td>
    </tr>
  )
}
