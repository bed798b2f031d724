import { Quotes } from "@card-rewards/core/Quotes"
import { SpendEventStatuses } from "@card-rewards/core/SpendEventStatuses"
import { type IntegratorId, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Quote, QuoteRequest } from "@card-rewards/domain/Quote"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Schema } from "effect"
import { compare } from "./Compare.ts"
import type { Spend } from "./Spend.ts"
import { untilAvailable } from "./Worker.ts"

/** What the service says that a clearing would earn, by program. */
export const readQuotes = Effect.fnUntraced(function*(integratorId: IntegratorId, spend: Spend) {
  const purchase = Schema.decodeUnknownSync(QuoteRequest)({
    amount: { currency: spend.currency, amount: `${spend.cents}` },
    merchant: { descriptor: "Shop", mcc: spend.mcc },
    occurredAt: printTimestamp(spend.occurredAt)
  })
  const quotes = yield* untilAvailable((yield* Quotes).quote(integratorId, UserId.make(spend.user), purchase))
  Schema.decodeUnknownSync(Schema.Array(Quote), { onExcessProperty: "error" })(quotes)
  return quotes.map(({ amount, explanation, programId, programVersion }) => {
    if (amount !== explanation.earned) throw new Error("a quote is not what its explanation says")
    return { programId, programVersion, amount }
  })
})

/** Programs that exclude a purchase, or have no version in force, have no quote. */
const unquoted = new Set<string | undefined>(["noVersionInForce", "excludedMcc", "notEligible"])

/** What the clearing has earned, compared with the quotes. */
export const compareQuotes = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  { kind, transaction, user }: Spend,
  quotes: Effect.Success<ReturnType<typeof readQuotes>>
) {
  const { outcomes = [], reason } = yield* untilAvailable(
    (yield* SpendEventStatuses).get(integratorId, {
      userId: UserId.make(user),
      kind,
      externalTransactionId: TransactionId.make(transaction)
    })
  )
  const earned = outcomes.flatMap(({ amount = "0", programId, programVersion, reason }) =>
    unquoted.has(reason) ? [] : [{ programId, programVersion, amount }])
  const quoted = reason === "zeroAmount" ? quotes.filter(({ amount }) => amount !== "0") : quotes
  return compare(`the quotes of ${transaction} of ${user}`, earned, quoted)
})
