import type { Explanation } from "@card-rewards/domain/Explanation"
import type { UserId } from "@card-rewards/domain/Ids"
import type { Reward } from "@card-rewards/domain/Reward"
import type { ReactNode } from "react"
import { printFactor, printRate } from "../../format/Money.ts"
import { useRead } from "../../session/Query.ts"
import { Loaded } from "../../ui/Failure.tsx"
import { Money } from "../../ui/Money.tsx"
import { When } from "../../ui/When.tsx"

/** The calculation of a reward's amount. */
export const ExplanationOf = ({ reward, userId }: { readonly reward: Reward; readonly userId: UserId }) => {
  const query = useRead(["explanation", userId, reward.id, reward.revision], (api) =>
    api.users.explanation({ params: { userId, rewardId: reward.id } })
  )
  return (
    <Loaded query={query}>{({ explanation }) => <Calculation explanation={explanation} reward={reward} />}</Loaded>
  )
}

const sources: Record<Explanation["rate"]["source"], string> = {
  tierCategory: "the tier’s rate for the category",
  category: "the rate of the category",
  tierBase: "the tier’s base rate",
  base: "the base rate"
}

const Calculation = ({ explanation, reward }: { readonly explanation: Explanation; readonly reward: Reward }) => {
  const {
    amount: { asset },
    spend
  } = reward
  const { attributes, bonuses, caps, category, multiplier, rate, recoveries, refunds } = explanation
  return (
    <table className="calculation">
      <caption>How it came about</caption>
      <tbody>
        <Line
          name="Purchase"
          note={
            <>
              <When at={explanation.purchaseTime} />
              {category === undefined ? (
                ", outside every category"
              ) : (
                <>
                  , category <b>{category}</b>
                </>
              )}
            </>
          }
        >
          <Money amount={spend.amount} unit={spend.currency} />
        </Line>
        <Line name="Rate" note={sources[rate.source]}>
          {printRate(rate.value)}
        </Line>
        {multiplier !== 10_000 && (
          <Line
            name="Multiplier"
            note={
              attributes.tier === undefined ? (
                ""
              ) : (
                <>
                  tier <b>{attributes.tier}</b>
                </>
              )
            }
          >
            {printFactor(multiplier)}
          </Line>
        )}
        {bonuses.map((bonus) => (
          <Line key={bonus.campaignId} name="Campaign" note={bonus.campaignId}>
            + {printRate(bonus.bonusRate)}
          </Line>
        ))}
        <Line name="Before caps" note="rounded down once">
          <Money amount={explanation.raw} unit={asset} />
        </Line>
        {caps.map((cap) => (
          <Line
            key={`${cap.scope}${cap.categoryId ?? ""}`}
            name={cap.scope === "month" ? "Monthly cap" : `Cap of ${cap.categoryId ?? "the category"}`}
            note={
              <>
                <Money amount={cap.usedBefore} unit={asset} bare /> of{" "}
                <Money amount={cap.perMonth} unit={asset} bare /> used before
              </>
            }
          >
            {cap.left < explanation.raw ? (
              <>
                at most <Money amount={cap.left} unit={asset} />
              </>
            ) : (
              <span className="muted">leaves room</span>
            )}
          </Line>
        ))}
        <Line name="Earned" total>
          <Money amount={explanation.earned} unit={asset} strong />
        </Line>
        {refunds.map((refund) => (
          <Line
            key={refund.externalTransactionId}
            name="Refund"
            note={
              <>
                <span className="mono">{refund.externalTransactionId}</span> of{" "}
                <Money amount={refund.amount} unit={spend.currency} />
              </>
            }
          >
            − <Money amount={refund.reduction} unit={asset} />
          </Line>
        ))}
        {refunds.length > 0 && (
          <Line name="Amount" total>
            <Money amount={explanation.amount} unit={asset} strong />
          </Line>
        )}
        {recoveries.map((recovery) => (
          <Line
            key={recovery.at}
            name="Recovered"
            note={
              <>
                for what was owed, <When at={recovery.at} />
              </>
            }
          >
            − <Money amount={recovery.amount} unit={asset} />
          </Line>
        ))}
        {reward.paid > 0n && (
          <Line name="Paid">
            <Money amount={reward.paid} unit={asset} />
          </Line>
        )}
        {reward.clawedBack > 0n && (
          <Line name="Owed back" note="paid before the refund">
            <Money amount={reward.clawedBack} unit={asset} />
          </Line>
        )}
      </tbody>
    </table>
  )
}

const Line = ({
  children,
  name,
  note,
  total = false
}: {
  readonly name: string
  readonly note?: ReactNode
  readonly total?: boolean
  readonly children: ReactNode
}) => (
  <tr data-total={total}>
    <th scope="row">{name}</th>
    <td className="muted">{note}</td>
    <td className="number">{children}</td>
  </tr>
)
