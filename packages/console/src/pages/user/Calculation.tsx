import type { Computation, Explanation } from "@card-rewards/domain/Explanation"
import type { UserId } from "@card-rewards/domain/Ids"
import type { Asset, SpendAmount } from "@card-rewards/domain/Money"
import type { Reward } from "@card-rewards/domain/Reward"
import type { ReactNode } from "react"
import { printFactor, printRate } from "../../format/Money.ts"
import { useRead } from "../../session/Query.ts"
import { Loaded } from "../../ui/Failure.tsx"
import { Money } from "../../ui/Money.tsx"
import { When } from "../../ui/When.tsx"

/** A reward, as far as its explanation does not have it. */
export interface Explained {
  readonly id: string
  readonly asset: Asset
  readonly spend: SpendAmount
  /** What was paid, and owed back of it, where that is known. */
  readonly reward?: Pick<Reward, "paid" | "clawedBack" | "revision">
}

/** The calculation of a reward's amount. */
export const ExplanationOf = ({ explained, userId }: { readonly explained: Explained; readonly userId: UserId }) => {
  const { asset, id, reward, spend } = explained
  const query = useRead(["explanation", userId, id, reward?.revision ?? 0], (api) =>
    api.users.explanation({ params: { userId, rewardId: id } })
  )
  return (
    <Loaded query={query}>
      {({ explanation }) => (
        <Calculation computation={explanation} asset={asset} spend={spend}>
          <RefundLines explanation={explanation} asset={asset} spend={spend} />
          <PaymentLines explanation={explanation} asset={asset} reward={reward} />
        </Calculation>
      )}
    </Loaded>
  )
}

interface CalculationProps {
  readonly computation: Computation
  readonly asset: Asset
  readonly spend: SpendAmount
}

/** From the purchase to what it earns, then what the children add. */
export const Calculation = ({ children, ...props }: CalculationProps & { readonly children?: ReactNode }) => (
  <table className="calculation">
    <caption>How it came about</caption>
    <tbody>
      <PurchaseLine {...props} />
      <RateLines {...props} />
      <CapLines {...props} />
      {children}
    </tbody>
  </table>
)

const PurchaseLine = ({ computation: { category, purchaseTime }, spend }: CalculationProps) => (
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

const sources: Record<Computation["rate"]["source"], string> = {
  tierCategory: "the tier’s rate for the category",
  category: "the rate of the category",
  tierBase: "the tier’s base rate",
  base: "the base rate"
}

/** The rate, what multiplies it and what is added to it, and the amount that results. */
const RateLines = ({ asset, computation: { attributes, bonuses, multiplier, rate, raw } }: CalculationProps) => (
  <>
    <Line name="Rate" note={sources[rate.source]}>
      {printRate(rate.value)}
    </Line>
    {multiplier !== 10_000 && (
      <Line
        name="Multiplier"
        note={
          attributes.tier !== undefined && (
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
      <Money amount={raw} unit={asset} />
    </Line>
  </>
)

/** Each cap with what it leaves, and what was earned. */
const CapLines = ({ asset, computation: { caps, earned, raw } }: CalculationProps) => (
  <>
    {caps.map(({ categoryId, left, perMonth, scope, usedBefore }) => (
      <Line
        key={`${scope}${categoryId ?? ""}`}
        name={scope === "month" ? "Monthly cap" : `Cap of ${categoryId ?? "the category"}`}
        note={
          <>
            <Money amount={usedBefore} unit={asset} bare /> of <Money amount={perMonth} unit={asset} bare /> used before
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

/** Each refund with what it takes, and the amount that is left. */
const RefundLines = ({
  asset,
  explanation: { amount, refunds },
  spend
}: Pick<Explained, "asset" | "spend"> & { readonly explanation: Explanation }) => (
  <>
    {refunds.map(({ amount, externalTransactionId, reduction }) => (
      <Line
        key={externalTransactionId}
        name="Refund"
        note={
          <>
            <span className="mono">{externalTransactionId}</span> of <Money amount={amount} unit={spend.currency} />
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

/** What became of the amount: recovered for what the user owed, paid, and owed back after a refund. */
const PaymentLines = ({
  asset,
  explanation: { recoveries },
  reward
}: {
  readonly asset: Asset
  readonly explanation: Explanation
  readonly reward: Explained["reward"]
}) => (
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
    {reward !== undefined && reward.paid > 0n && (
      <Line name="Paid">
        <Money amount={reward.paid} unit={asset} />
      </Line>
    )}
    {reward !== undefined && reward.clawedBack > 0n && (
      <Line name="Owed back" note="paid or recovered before the refund">
        <Money amount={reward.clawedBack} unit={asset} />
      </Line>
    )}
  </>
)

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
