import { Collapsible } from "@base-ui/react/collapsible"
import type { UserId } from "@card-rewards/domain/Ids"
import type { Reward } from "@card-rewards/domain/Reward"
import { useState } from "react"
import { Link } from "wouter"
import { Fact, Facts } from "../../ui/Facts.tsx"
import { stateNames } from "../../ui/Labels.ts"
import { Money } from "../../ui/Money.tsx"
import { Paged } from "../../ui/Paged.tsx"
import { Badge, Empty, Panel } from "../../ui/Panel.tsx"
import { When } from "../../ui/When.tsx"
import { transactionPath } from "../Paths.ts"
import { ExplanationOf } from "./Calculation.tsx"

/** A user's rewards, paginated, newest first; each expands to the calculation of its amount. */
export const RewardList = ({ userId }: { readonly userId: UserId }) => (
  <Panel title="Rewards" hint="Newest first. Open one to see how its amount came about." flush>
    <Paged
      name={["rewards", userId]}
      limit={20}
      everyMillis={5_000}
      read={(api, query) => api.users.rewards({ params: { userId }, query })}
      itemsOf={({ rewards }) => rewards}
      empty={
        <Empty title="No rewards yet">
          Clearings earn rewards where a program’s version is in force and the user is eligible.
        </Empty>
      }
    >
      {(rewards) => (
        <ul className="rows">
          {rewards.map((reward) => (
            <li key={reward.id}>
              <RewardRow reward={reward} userId={userId} />
            </li>
          ))}
        </ul>
      )}
    </Paged>
  </Panel>
)

const RewardRow = ({ reward, userId }: { readonly reward: Reward; readonly userId: UserId }) => {
  const [open, setOpen] = useState(false)
  return (
    <Collapsible.Root open={open} onOpenChange={setOpen} className="fold">
      <Collapsible.Trigger className="row reward-row">
        <span className="reward-what">
          <span className="mono strong">{reward.transaction.externalTransactionId}</span>
          <span className="muted">
            <bdi>{reward.programId}</bdi> v{reward.programVersion}
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
            <Facts>
              <Fact name="Created">
                <When at={reward.createdAt} />
              </Fact>
              <Fact name="Claimable">
                <When at={reward.claimableAt} />
              </Fact>
              <Fact name="Changed">
                <When at={reward.updatedAt} />, revision {reward.revision}
              </Fact>
              <Fact name="Transaction">
                <Link href={transactionPath(userId, reward.transaction.externalTransactionId)}>
                  {reward.transaction.externalTransactionId}
                </Link>
              </Fact>
              <Fact name="Id" className="mono break">
                {reward.id}
              </Fact>
            </Facts>
            <ExplanationOf
              explained={{ id: reward.id, asset: reward.amount.asset, spend: reward.spend, reward }}
              userId={userId}
            />
          </>
        )}
      </Collapsible.Panel>
    </Collapsible.Root>
  )
}
