import { TransactionId, UserId } from "@card-rewards/domain/Ids"
import { SpendEventKind } from "@card-rewards/domain/SpendEvent"
import { Effect, Schema } from "effect"
import { Link } from "wouter"
import type { Api } from "../session/Session.ts"
import { useRead } from "../session/Query.ts"
import { Loaded } from "../ui/Failure.tsx"
import { Empty, Page, Panel } from "../ui/Panel.tsx"
import { userPath } from "./Paths.ts"
import type { TransactionOf } from "./user/PrintedId.ts"
import { SpendEventPanel } from "./user/SpendEventPanel.tsx"

/** The spend events of one transaction id: an authorization and its clearing often share one. */
export const TransactionPage = (ids: { readonly userId: string; readonly transactionId: string }) =>
  Schema.is(UserId)(ids.userId) && Schema.is(TransactionId)(ids.transactionId) ? (
    <Transaction userId={ids.userId} transactionId={ids.transactionId} />
  ) : (
    <Page title="Users">
      <Empty title="This is no transaction id" action={<FindAnother path="/users" />}>
        Ids of users and transactions have 1 to 128 characters.
      </Empty>
    </Page>
  )

const Transaction = ({ transactionId, userId }: TransactionOf) => {
  const query = useRead(
    ["transaction", userId, transactionId],
    (api) => Effect.all(SpendEventKind.literals.map(read(api, { userId, transactionId })), { concurrency: 5 }),
    { everyMillis: 5_000 }
  )
  return (
    <Page
      title={<span className="mono">{transactionId}</span>}
      lead={
        <>
          Transaction of <Link href={userPath(userId)}>{userId}</Link>
        </>
      }
    >
      <Loaded query={query}>
        {(found) => {
          const events = found.flatMap((event) => event ?? [])
          return events.length === 0 ? (
            <Panel title="Not found">
              <Empty title="No spend event has this id" action={<FindAnother path={userPath(userId)} />}>
                Neither an authorization, nor a clearing, reversal or refund of this user. Ids are compared character
                by character.
              </Empty>
            </Panel>
          ) : (
            events.map((status) => <SpendEventPanel key={status.event.kind} status={status} />)
          )
        }}
      </Loaded>
    </Page>
  )
}

const FindAnother = ({ path }: { readonly path: string }) => (
  <Link href={path} className="button">
    Find another one
  </Link>
)

/** Reads the event of a kind, if there is one. */
const read =
  (api: Api, { transactionId, userId }: TransactionOf) =>
  (kind: SpendEventKind) =>
    api.users.spendEvent({ params: { userId, kind, externalTransactionId: transactionId } }).pipe(
      Effect.map(({ spendEvent }) => spendEvent),
      Effect.catchTag("NotFound", () => Effect.succeed(undefined))
    )
