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

interface CalculationProps {
  readonly explanation: Explanation
  readonly reward: Reward
}

/** From the purchase to the amount: what it earns, what refunds and recoveries take from it, and what was paid. */
const Calculation = (props: CalculationProps) => (
  <table className="calculation">
    <caption>How it came about</caption>
    <tbody>
      <PurchaseLine {...props} />
      <RateLines {...props} />
      <CapLines {...props} />
      <RefundLines {...props} />
      <PaymentLines {...props} />
    </tbody>
  </table>
)

const PurchaseLine = ({ explanation: { category, purchaseTime }, reward: { spend } }: CalculationProps) => (
  <Line
    name="Purchase"
    note={
      <>
        <When at={purchaseTime} />
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
)

const sources: Record<Explanation["rate"]["source"], string> = {
  tierCategory: "the tier’s rate for the category",
  category: "the rate of the category",
  tierBase: "the tier’s base rate",
  base: "the base rate"
}

/** The rate, what multiplies it and what is added to it, and the amount that results. */
const RateLines = ({ explanation: { attributes, bonuses, multiplier, rate, raw }, reward }: CalculationProps) => (
  <>
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
    {bonuses.map(({ bonusRate, campaignId }) => (
      <Line key={campaignId} name="Campaign" note={campaignId}>
        + {printRate(bonusRate)}
      </Line>
    ))}
    <Line name="Before caps" note="rounded down once">
      <Money amount={raw} unit={reward.amount.asset} />
    </Line>
  </>
)

/** Each cap with what it leaves, and what was earned. */
const CapLines = ({ explanation: { caps, earned, raw }, reward }: CalculationProps) => {
  const { asset } = reward.amount
  return (
    <>
      {caps.map(({ categoryId, left, perMonth, scope, usedBefore }) => (
        <Line
          key={`${scope}${categoryId ?? ""}`}
          name={scope === "month" ? "Monthly cap" : `Cap of ${categoryId ?? "the category"}`}
          note={
            <>
              <Money amount={usedBefore} unit={asset} bare /> of <Money amount={perMonth} unit={asset} bare /> used
              before
            </>
          }
        >
          {left < raw ? (
            <>
              at most <Money amount={left} unit={asset} />
            </>
          ) : (
            <span className="muted">leaves room</span>
          )}
        </Line>
      ))}
      <Line name="Earned" total>
        <Money amount={earned} unit={asset} strong />
      </Line>
    </>
  )
}

/** Each refund with what it takes, and the amount that is left. */
const RefundLines = ({ explanation: { amount, refunds }, reward }: CalculationProps) => {
  const { asset } = reward.amount
  return (
    <>
      {refunds.map(({ amount, externalTransactionId, reduction }) => (
        <Line
          key={externalTransactionId}
          name="Refund"
          note={
            <>
              <span className="mono">{externalTransactionId}</span> of{" "}
              <Money amount={amount} unit={reward.spend.currency} />
            </>
          }
        >
          − <Money amount={reduction} unit={asset} />
        </Line>
      ))}
      {refunds.length > 0 && (
        <Line name="Amount" total>
          <Money amount={amount} unit={asset} strong />
        </Line>
      )}
    </>
  )
}

/** What became of the amount: recovered for what the user owed, paid, and owed back after a refund. */
const PaymentLines = ({ explanation: { recoveries }, reward }: CalculationProps) => {
  const { asset } = reward.amount
  return (
    <>
      {recoveries.map(({ amount, at }) => (
        <Line
          key={at}
          name="Recovered"
          note={
            <>
              for what was owed, <When at={at} />
            </>
          }
        >
          − <Money amount={amount} unit={asset} />
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
    </>
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
