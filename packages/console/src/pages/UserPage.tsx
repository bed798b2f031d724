import type { AssetBalance } from "@card-rewards/domain/Balance"
import { UserId } from "@card-rewards/domain/Ids"
import { Schema } from "effect"
import { Link } from "wouter"
import { useRead } from "../session/Query.ts"
import { Failure, Loaded, Skeleton } from "../ui/Failure.tsx"
import { Money } from "../ui/Money.tsx"
import { Empty, Page, Panel, Stat } from "../ui/Panel.tsx"
import { When } from "../ui/When.tsx"
import { userPath } from "./Paths.ts"
import { FindTransaction } from "./user/FindTransaction.tsx"
import { Quotes } from "./user/Quotes.tsx"
import { RewardList } from "./user/RewardList.tsx"

/** One user: attributes, balances, rewards with their explanations, transactions and quotes. */
export const UserPage = ({ userId }: { readonly userId: string }) =>
  Schema.is(UserId)(userId) ? (
    <KnownUser userId={userId} />
  ) : (
    <Page title="Users">
      <Empty
        title="This is no user id"
        action={
          <Link href="/users" className="button">
            Find another user
          </Link>
        }
      >
        User ids have 1 to 128 characters.
      </Empty>
    </Page>
  )

const KnownUser = ({ userId }: { readonly userId: UserId }) => {
  const params = { userId }
  const user = useRead(["user", userId], (api) => api.users.get({ params }), { everyMillis: 10_000 })
  const balance = useRead(["balance", userId], (api) => api.users.balance({ params }), {
    everyMillis: 5_000,
    enabled: user.data !== undefined
  })
  if (user.isLoadingError) {
    return (
      <Page title={userId}>
        <Failure error={user.error} onRetry={() => void user.refetch()} />
        <Empty
          title="Is it spelt as when it was enrolled?"
          action={
            <Link href="/users" className="button">
              Find another user
            </Link>
          }
        >
          Ids are compared character by character. Users are enrolled with <code>PUT /v1/users/{"{userId}"}</code>.
        </Empty>
      </Page>
    )
  }
  return (
    <Page
      title={<span className="mono">{userId}</span>}
      lead={user.data === undefined ? <Skeleton lines={1} /> : <Attributes user={user.data.user} />}
    >
      {user.isError && <Failure error={user.error} onRetry={() => void user.refetch()} />}
      <Loaded query={balance}>
        {({ balances }) => (
          <div className="split">
            {balances.map((entry) => (
              <Balance key={entry.asset} balance={entry} />
            ))}
          </div>
        )}
      </Loaded>
      <div className="split wide-first">
        <RewardList userId={userId} />
        <div className="stack">
          <FindTransaction userId={userId} />
          <Quotes userId={userId} />
        </div>
      </div>
    </Page>
  )
}

const Attributes = ({
  user
}: {
  readonly user: {
    tier?: string
    country?: string
    segment?: string
    referredBy?: string
    enrolledAt: number
    updatedAt: number
  }
}) => (
  <span className="facts">
    <span>
      tier <b>{user.tier ?? "none"}</b>
    </span>
    <span>
      country <b>{user.country ?? "none"}</b>
    </span>
    <span>
      segment <b>{user.segment ?? "none"}</b>
    </span>
    {user.referredBy !== undefined && (
      <span>
        referred by <Link href={userPath(user.referredBy)}>{user.referredBy}</Link>
      </span>
    )}
    <span>
      enrolled <When at={user.enrolledAt} />
    </span>
    {user.updatedAt !== user.enrolledAt && (
      <span>
        updated <When at={user.updatedAt} />
      </span>
    )}
  </span>
)

const Balance = ({ balance }: { readonly balance: typeof AssetBalance.Type }) => (
  <Panel title={balance.asset}>
    <dl className="stats small">
      {parts.map(([part, label, color]) => (
        <Stat key={part} label={label} color={color} hint={balance[part] > 0n ? hints[part] : undefined}>
          <Money amount={balance[part]} unit={balance.asset} bare />
        </Stat>
      ))}
    </dl>
  </Panel>
)

/** The parts of a balance, in the colours of the rewards' states. */
const parts = [
  ["expected", "Expected", undefined],
  ["awaitingFunding", "Awaiting funding", "s-AwaitingFunding"],
  ["pending", "Pending", "s-Pending"],
  ["claimable", "Claimable", "s-Claimable"],
  ["paid", "Paid", "s-Paid"],
  ["owed", "Owed", "s-Refunded"]
] as const

const hints: { readonly [part in (typeof parts)[number][0]]?: string } = {
  expected: "open authorizations",
  owed: "taken from the next claimable"
}
