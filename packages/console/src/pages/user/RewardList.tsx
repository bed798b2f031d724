import { Collapsible } from "@base-ui/react/collapsible"
import type { UserId } from "@card-rewards/domain/Ids"
import type { Reward } from "@card-rewards/domain/Reward"
import { useState } from "react"
import { useRead } from "../../session/Query.ts"
import { Loaded } from "../../ui/Failure.tsx"
import { stateNames } from "../../ui/Labels.ts"
import { Money } from "../../ui/Money.tsx"
import { Badge, Empty, Panel } from "../../ui/Panel.tsx"
import { When } from "../../ui/When.tsx"
import { ExplanationOf } from "./ExplanationOf.tsx"

const pageSize = 20

/** A user's rewards by pages, newest first; each opens to how its amount came about. */
export const RewardList = ({ userId }: { readonly userId: UserId }) => {
  const [cursors, setCursors] = useState<ReadonlyArray<string>>([])
  const cursor = cursors.at(-1)
  const page = useRead(
    ["rewards", userId, cursor ?? ""],
    (api) =>
      api.users.rewards({
        params: { userId },
        query: { limit: pageSize, ...(cursor === undefined ? {} : { cursor }) }
      }),
    { everyMillis: 5_000 }
  )
  return (
    <Panel title="Rewards" hint="Newest first. Open one to see how its amount came about." flush>
      <Loaded query={page}>
        {({ next, rewards }) =>
          rewards.length === 0 ? (
            <Empty title="No rewards yet">
              Clearings earn rewards where a program’s version is in force and the user is eligible.
            </Empty>
          ) : (
            <>
              <ul className="rows">
                {rewards.map((reward) => (
                  <li key={reward.id}>
                    <RewardRow reward={reward} userId={userId} />
                  </li>
                ))}
              </ul>
              <div className="pager">
                <button
                  type="button"
                  className="button"
                  disabled={cursors.length === 0}
                  onClick={() => setCursors(cursors.slice(0, -1))}
                >
                  Newer
                </button>
                <button
                  type="button"
                  className="button"
                  disabled={next === undefined}
                  onClick={() => next !== undefined && setCursors([...cursors, next])}
                >
                  Older
                </button>
              </div>
            </>
          )
        }
      </Loaded>
    </Panel>
  )
}

const RewardRow = ({ reward, userId }: { readonly reward: Reward; readonly userId: UserId }) => {
  const [open, setOpen] = useState(false)
  return (
    <Collapsible.Root open={open} onOpenChange={setOpen} className="fold">
      <Collapsible.Trigger className="row reward-row">
        <span className="reward-what">
          <span className="mono strong">{reward.transaction.externalTransactionId}</span>
          <span className="muted">
            {reward.programId} v{reward.programVersion}
          </span>
        </span>
        <Badge tone={`s-${reward.state}`}>{stateNames[reward.state]}</Badge>
        <span className="reward-money">
          <Money amount={reward.amount.amount} unit={reward.amount.asset} strong />
          <span className="muted">
            of <Money amount={reward.spend.amount} unit={reward.spend.currency} />
          </span>
        </span>
      </Collapsible.Trigger>
      <Collapsible.Panel className="fold-body">
        {open && (
          <>
            <dl className="facts-list">
              <div>
                <dt>Created</dt>
                <dd>
                  <When at={reward.createdAt} />
                </dd>
              </div>
              <div>
                <dt>Claimable</dt>
                <dd>
                  <When at={reward.claimableAt} />
                </dd>
              </div>
              <div>
                <dt>Changed</dt>
                <dd>
                  <When at={reward.updatedAt} />, revision {reward.revision}
                </dd>
              </div>
              <div>
                <dt>Id</dt>
                <dd className="mono break">{reward.id}</dd>
              </div>
            </dl>
            <ExplanationOf reward={reward} userId={userId} />
          </>
        )}
      </Collapsible.Panel>
    </Collapsible.Root>
  )
}
