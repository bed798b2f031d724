import type { Asset } from "@card-rewards/domain/Money"
import { useState } from "react"
import { Link } from "wouter"
import { keptEvents, type RecentEvent } from "../../events/Latest.ts"
import { useLatest } from "../../events/useLatest.ts"
import { Failure } from "../../ui/Failure.tsx"
import { eventNames } from "../../ui/Labels.ts"
import { Money } from "../../ui/Money.tsx"
import { Badge, Panel } from "../../ui/Panel.tsx"
import { Head, NumberHead, Table, TimeHead } from "../../ui/Table.tsx"
import { When } from "../../ui/When.tsx"
import { userPath } from "../Paths.ts"

const shownAtFirst = 12

type Movement = RecentEvent & Required<Pick<RecentEvent, "movement">>

/** The movements among the newest events; the statement sums up all of them. */
export const Movements = ({ asset }: { readonly asset: Asset }) => {
  const latest = useLatest()
  const [shown, setShown] = useState(shownAtFirst)
  const all = (latest.data?.events ?? [])
    .filter((event): event is Movement => event.movement?.amount.asset === asset)
    .toReversed()
  const failure = latest.isError && <Failure error={latest.error} onRetry={() => void latest.refetch()} />
  if (all.length === 0) return failure || undefined
  return (
    <>
      {failure}
      <Panel
        title="Latest movements"
        hint={`Deposits, withdrawals and claims among the newest ${keptEvents} events, with what each left.`}
        flush
      >
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
          {all.slice(0, shown).map((event) => (
            <MovementRow key={event.id} event={event} />
          ))}
        </Table>
        {all.length > shown && (
          <button type="button" className="link more" onClick={() => setShown(shown * 2)}>
            Show more of {all.length}
          </button>
        )}
      </Panel>
    </>
  )
}

const MovementRow = ({ event: { at, kind, movement, userId } }: { readonly event: Movement }) => {
  const isDeposit = kind === "vault.deposit_confirmed"
  const { asset, amount } = movement.amount
  return (
    <tr>
      <td>
        <When at={at} />
      </td>
      <td>
        <Badge tone={isDeposit ? "good" : "plain"}>{eventNames[kind]}</Badge>
        {userId !== undefined && (
          <>
            {" "}
            by <Link href={userPath(userId)}>{userId}</Link>
          </>
        )}
      </td>
      <td className="mono">{movement.reference}</td>
      <td className="number">
        {isDeposit ? "+" : "−"}
        <Money amount={amount} unit={asset} strong />
      </td>
      <td className="number">
        <Money amount={movement.balance.held} unit={asset} bare />
      </td>
      <td className="number">
        <Money amount={movement.balance.free} unit={asset} bare />
      </td>
    </tr>
  )
}
