import { maxBacklogCount } from "@card-rewards/domain/SpendEvent"
import { useState } from "react"
import { Link } from "wouter"
import { CohortChart } from "../charts/CohortChart.tsx"
import { useHistoryState } from "../history/HistoryContext.ts"
import { cohorts, funnel } from "../history/Series.ts"
import { useRead } from "../session/Query.ts"
import { Money } from "../ui/Money.tsx"
import { Paged } from "../ui/Paged.tsx"
import { Empty, Page, Panel, Stat } from "../ui/Panel.tsx"
import { Segments } from "../ui/Segments.tsx"
import { useNow } from "../ui/useNow.ts"
import { When } from "../ui/When.tsx"
import { ZoneName } from "../ui/Zone.tsx"
import { userPath } from "./Paths.ts"
import { assetOptions, useAsset, type Window, windowOptions, windowStart } from "./useAsset.ts"

/** The amounts at each step from spend events to paid rewards. */
export const Rewards = () => {
  const { fold } = useHistoryState()
  const [asset, setAsset] = useAsset()
  const [window, setWindow] = useState<Window>("30")
  const [measure, setMeasure] = useState<"amount" | "count">("amount")
  const now = useNow()
  const sum = funnel(fold, asset)
  const earliest = fold.vault[asset].find((point) => point.reserved > 0n || point.waiting > 0n)?.at
  return (
    <Page
      title="Rewards"
      lead="A clearing earns a reward. It may wait for funding, is held for a time, becomes claimable and is paid."
      actions={<Segments label="Asset" value={asset} onChange={setAsset} options={assetOptions} />}
    >
      <dl className="stats funnel">
        <Stat label="Earned" hint={`by ${sum.count.toLocaleString("en")} ${sum.count === 1 ? "reward" : "rewards"}`}>
          <Money amount={sum.earned} unit={asset} />
        </Stat>
        <Stat label="Awaiting funding" color="s-AwaitingFunding">
          <Money amount={sum.waiting} unit={asset} />
        </Stat>
        <Stat label="Pending" color="s-Pending">
          <Money amount={sum.pending} unit={asset} />
        </Stat>
        <Stat label="Claimable" color="s-Claimable">
          <Money amount={sum.claimable} unit={asset} />
        </Stat>
        <Stat
          label="Paid"
          color="s-Paid"
          hint={
            sum.recovered > 0n ? (
              <>
                and <Money amount={sum.recovered} unit={asset} /> recovered
              </>
            ) : undefined
          }
        >
          <Money amount={sum.paid} unit={asset} />
        </Stat>
        <Stat
          label="Refunded"
          color="s-Refunded"
          hint={
            sum.owed > 0n ? (
              <>
                <Money amount={sum.owed} unit={asset} /> owed back
              </>
            ) : undefined
          }
        >
          <Money amount={sum.refunded} unit={asset} />
        </Stat>
      </dl>
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
        {sum.count === 0 ? (
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
        ) : (
          <CohortChart
            asset={asset}
            measure={measure}
            cohorts={cohorts(fold, asset, windowStart(window, earliest, now), now)}
          />
        )}
      </Panel>
      <SetAside />
    </Page>
  )
}

/** A count of the backlog, up to its limit. */
const counted = (count: number) => `${count.toLocaleString("en")}${count < maxBacklogCount ? "" : " or more"}`

/** Spend events that are not applied yet, and the reasons. */
const SetAside = () => {
  const backlog = useRead(["backlog"], (api) => api.spendEvents.backlog(), { everyMillis: 5_000 })
  return (
    <Panel
      title="Spend events without effect so far"
      hint={
        backlog.data === undefined ? (
          "Stored, not processed yet; or set aside until the event they refer to arrives."
        ) : (
          <>
            {counted(backlog.data.stored)} stored and not processed yet
            {backlog.data.oldestStoredAt !== undefined && (
              <>
                , the oldest since <When at={backlog.data.oldestStoredAt} />
              </>
            )}
            . {counted(backlog.data.waiting)} set aside.
          </>
        )
      }
      flush
    >
      <Paged
        name={["waiting-events"]}
        limit={50}
        everyMillis={5_000}
        read={(api, query) => api.spendEvents.waiting({ query: { ...query, state: "waiting" } })}
        itemsOf={({ spendEvents }) => spendEvents}
        empty={
          <Empty title="Nothing is set aside">
            An event that arrives before the one it refers to, as a refund before its clearing, waits here and is
            applied as soon as that arrives.
          </Empty>
        }
      >
        {(spendEvents) => (
          <div className="table-scroll" tabIndex={0} role="region" aria-label="Events that are set aside">
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">
                    Received (<ZoneName />)
                  </th>
                  <th scope="col">User</th>
                  <th scope="col">Event</th>
                  <th scope="col">Waits for</th>
                  <th scope="col" className="number">
                    Spend
                  </th>
                </tr>
              </thead>
              <tbody>
                {spendEvents.map(({ event, id, receivedAt, waitingFor }) => (
                  <tr key={`${event.userId} ${id}`}>
                    <td>
                      <When at={receivedAt} />
                    </td>
                    <td>
                      <Link href={userPath(event.userId)}>{event.userId}</Link>
                    </td>
                    <td>
                      {event.kind.replaceAll("_", " ")}{" "}
                      <span className="mono muted">{event.externalTransactionId}</span>
                    </td>
                    <td>
                      {waitingFor.kind} <span className="mono">{waitingFor.externalTransactionId}</span>
                    </td>
                    <td className="number">
                      <Money amount={event.amount.amount} unit={event.amount.currency} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Paged>
    </Panel>
  )
}
