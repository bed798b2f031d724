import { useState } from "react"
import { Link, useLocation } from "wouter"
import { keptEvents, type RecentEvent } from "../events/Latest.ts"
import { useLatest } from "../events/useLatest.ts"
import { Loaded } from "../ui/Failure.tsx"
import { Field } from "../ui/Field.tsx"
import { Empty, Page, Panel } from "../ui/Panel.tsx"
import { When } from "../ui/When.tsx"
import { transactionPath, userPath } from "./Paths.ts"
import { parsePrintedId, type TransactionOf } from "./user/PrintedId.ts"

/** Finds a user or a transaction by id. The API has no list of users; recently active ones are in the newest events. */
export const Users = () => {
  const [, navigate] = useLocation()
  const latest = useLatest()
  const [userId, setUserId] = useState("")
  const [transactionId, setTransactionId] = useState("")
  const [meanings, setMeanings] = useState<ReadonlyArray<TransactionOf>>([])
  const open = () => {
    const found = parsePrintedId(userId, latest.data?.events[0]?.integratorId)
    const [only] = found
    setMeanings(found)
    if (only === undefined) navigate(transactionId === "" ? userPath(userId) : transactionPath(userId, transactionId))
    else if (found.length === 1) navigate(transactionPath(only.userId, only.transactionId))
  }
  return (
    <Page title="Users" lead="What a user has, and how it came about. Users are known by your own ids alone.">
      <form
        className="search"
        role="search"
        onSubmit={(event) => {
          event.preventDefault()
          if (userId !== "") open()
        }}
      >
        <Field
          label="User id, or the id of an event or reward"
          value={userId}
          onChange={setUserId}
          placeholder="user-1, se:… or rw:…"
          mono
        />
        <Field
          label="Transaction id, if any"
          value={transactionId}
          onChange={setTransactionId}
          placeholder="txn-1"
          mono
        />
        <button type="submit" className="button primary" disabled={userId === ""}>
          Open
        </button>
      </form>
      {meanings.length > 1 && <Meanings meanings={meanings} />}
      <Panel title="Recently active" hint={`Users in the newest ${keptEvents} events, latest first.`} flush>
        <Loaded query={latest}>{({ events }) => <RecentUsers events={events} wanted={userId} />}</Loaded>
      </Panel>
    </Page>
  )
}

/** What an ambiguous id may mean. */
const Meanings = ({ meanings }: { readonly meanings: ReadonlyArray<TransactionOf> }) => (
  <Panel title="Several transactions can have this id" hint="An id has no mark between its parts but “:”." flush>
    <ul className="rows">
      {meanings.map(({ transactionId, userId }) => (
        <li key={userId}>
          <Link href={transactionPath(userId, transactionId)} className="row">
            <span>
              User <span className="mono strong">{userId}</span>, transaction{" "}
              <span className="mono strong">{transactionId}</span>
            </span>
          </Link>
        </li>
      ))}
    </ul>
  </Panel>
)

const RecentUsers = ({
  events,
  wanted
}: {
  readonly events: ReadonlyArray<RecentEvent>
  readonly wanted: string
}) => {
  const users = usersOf(events)
  const shown = users.filter(([userId]) => userId.includes(wanted))
  if (shown.length === 0) {
    return (
      <Empty title={users.length === 0 ? "No user has earned yet" : "No recently active user matches"}>
        {users.length === 0
          ? "Users appear here with their first reward. Any enrolled user can be opened by id above."
          : "Press Open to look the id up: other users are not among the newest events."}
      </Empty>
    )
  }
  return (
    <ul className="rows">
      {shown.map(([userId, at]) => (
        <li key={userId}>
          <Link href={userPath(userId)} className="row">
            <span className="mono strong">{userId}</span>
            <span className="muted">
              <When at={at} />
            </span>
          </Link>
        </li>
      ))}
    </ul>
  )
}

/** When each user had the latest event, latest first. */
const usersOf = (events: ReadonlyArray<RecentEvent>): ReadonlyArray<readonly [userId: string, at: number]> => {
  const users = new Map<string, number>()
  for (const { at, userId } of events.toReversed()) {
    if (userId !== undefined && !users.has(userId)) users.set(userId, at)
  }
  return [...users]
}
