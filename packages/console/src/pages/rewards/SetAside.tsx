import { maxBacklogCount, type SpendEventBacklog, type WaitingSpendEvent } from "@card-rewards/domain/SpendEvent"
import { Link } from "wouter"
import { useRead } from "../../session/Query.ts"
import { Money } from "../../ui/Money.tsx"
import { Paged } from "../../ui/Paged.tsx"
import { Empty, Panel } from "../../ui/Panel.tsx"
import { Head, NumberHead, Table, TimeHead } from "../../ui/Table.tsx"
import { When } from "../../ui/When.tsx"
import { userPath } from "../Paths.ts"

/** Spend events that are not applied yet, and the reasons. */
export const SetAside = () => {
  const backlog = useRead(["backlog"], (api) => api.spendEvents.backlog(), { everyMillis: 5_000 })
  return (
    <Panel
      title="Spend events without effect so far"
      hint={
        backlog.data === undefined ? (
          "Stored, not processed yet; or set aside until the event they refer to arrives."
        ) : (
          <Backlog backlog={backlog.data} />
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
          <Table
            label="Events that are set aside"
            heads={
              <>
                <TimeHead>Received</TimeHead>
                <Head>User</Head>
                <Head>Event</Head>
                <Head>Waits for</Head>
                <NumberHead>Spend</NumberHead>
              </>
            }
          >
            {spendEvents.map((waiting) => (
              <WaitingRow key={`${waiting.event.userId} ${waiting.id}`} waiting={waiting} />
            ))}
          </Table>
        )}
      </Paged>
    </Panel>
  )
}

/** How many spend events have no effect yet, and since when the oldest is stored. */
const Backlog = ({ backlog: { oldestStoredAt, stored, waiting } }: { readonly backlog: SpendEventBacklog }) => (
  <>
    {counted(stored)} stored and not processed yet
    {oldestStoredAt !== undefined && (
      <>
        , the oldest since <When at={oldestStoredAt} />
      </>
    )}
    . {counted(waiting)} set aside.
  </>
)

/** A count of the backlog, up to its limit. */
const counted = (count: number) => `${count.toLocaleString("en")}${count < maxBacklogCount ? "" : " or more"}`

const WaitingRow = ({ waiting: { event, receivedAt, waitingFor } }: { readonly waiting: WaitingSpendEvent }) => (
  <tr>
    <td>
      <When at={receivedAt} />
    </td>
    <td>
      <Link href={userPath(event.userId)}>{event.userId}</Link>
    </td>
    <td>
      {event.kind.replaceAll("_", " ")} <span className="mono muted">{event.externalTransactionId}</span>
    </td>
    <td>
      {waitingFor.kind} <span className="mono">{waitingFor.externalTransactionId}</span>
    </td>
    <td className="number">
      <Money amount={event.amount.amount} unit={event.amount.currency} />
    </td>
  </tr>
)
