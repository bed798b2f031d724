import type { UserId } from "@card-rewards/domain/Ids"
import { Currency, type SpendAmount } from "@card-rewards/domain/Money"
import { useState } from "react"
import { parseMoney } from "../../format/Money.ts"
import { useRead } from "../../session/Query.ts"
import { Loaded } from "../../ui/Failure.tsx"
import { Choice, Field } from "../../ui/Field.tsx"
import { Submit } from "../../ui/Form.tsx"
import { Money } from "../../ui/Money.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { Calculation } from "./Calculation.tsx"

const currencies = [
  ["USD", "USD"],
  ["EUR", "EUR"]
] as const

/** The form's fields as they are typed. */
interface Draft {
  readonly amount: string
  readonly currency: "USD" | "EUR"
  readonly mcc: string
}

interface Purchase {
  readonly amount: SpendAmount
  readonly mcc: string
  /** Counts the quotes, each of which is read anew. */
  readonly count: number
}

/** What a purchase of the user would earn now, without storing anything. */
export const Quotes = ({ userId }: { readonly userId: UserId }) => {
  const [draft, setDraft] = useState<Draft>({ amount: "", currency: "USD", mcc: "5411" })
  const [quoted, setQuoted] = useState<Purchase>()
  const amount = parseMoney(draft.amount, draft.currency)
  const isMcc = /^\d{4}$/.test(draft.mcc)
  return (
    <Panel title="Quote" hint="What a purchase would earn now. Nothing is stored.">
      <form
        className="form"
        onSubmit={(event) => {
          event.preventDefault()
          if (amount === undefined || !isMcc) return
          const spend = { currency: Currency.make(draft.currency), amount }
          setQuoted({ amount: spend, mcc: draft.mcc, count: (quoted?.count ?? 0) + 1 })
        }}
      >
        <div className="form-row narrow">
          <Field
            label="Amount"
            value={draft.amount}
            onChange={(amount) => setDraft({ ...draft, amount })}
            inputMode="decimal"
            placeholder="42.00"
            required
            problems={draft.amount !== "" && amount === undefined ? ["An amount as 42.00"] : []}
          />
          <Choice
            label="Currency"
            value={draft.currency}
            onChange={(currency) => setDraft({ ...draft, currency })}
            options={currencies}
          />
          <Field
            label="MCC"
            value={draft.mcc}
            onChange={(mcc) => setDraft({ ...draft, mcc })}
            inputMode="numeric"
            required
            mono
            problems={isMcc ? [] : ["Four digits"]}
          />
        </div>
        <div className="form-foot">
          <Submit disabled={amount === undefined || !isMcc}>Quote</Submit>
        </div>
      </form>
      {quoted !== undefined && <QuotesOf purchase={quoted} userId={userId} />}
    </Panel>
  )
}

const QuotesOf = ({
  purchase: { amount, count, mcc },
  userId
}: {
  readonly purchase: Purchase
  readonly userId: UserId
}) => {
  const query = useRead(["quotes", userId, amount.currency, String(amount.amount), mcc, count], (api) =>
    api.users.quotes({ params: { userId }, payload: { amount, merchant: { descriptor: "Any merchant", mcc } } })
  )
  return (
    <div className="outcome">
      <Loaded query={query}>
        {({ quotes }) =>
          quotes.length === 0 ? (
            <p role="status">It would earn nothing: no program pays for this currency, category and user now.</p>
          ) : (
            quotes.map((quote) => (
              <section key={quote.programId} aria-label={`Quote of ${quote.programId}`}>
                <p role="status">
                  <Money amount={quote.amount} unit={quote.asset} strong /> by <bdi>{quote.programId}</bdi> v
                  {quote.programVersion}
                </p>
                <Calculation computation={quote.explanation} asset={quote.asset} spend={amount} />
              </section>
            ))
          )
        }
      </Loaded>
    </div>
  )
}
