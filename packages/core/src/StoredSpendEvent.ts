import type { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { printTimestamp } from "@card-rewards/domain/Time"
import type { Row } from "./Database/Table.ts"
import * as Tables from "./Tables.ts"

/** The columns of a stored spend event with what the integrator sent. */
export const storedContents = Tables.spendEvents.pick(
  "integrator_id",
  "user_id",
  "kind",
  "external_transaction_id",
  "currency",
  "cents",
  "descriptor",
  "mcc",
  "mid",
  "country",
  "occurred_at",
  "original_id"
)
export type StoredContents = Row<typeof storedContents>

/** The event as the integrator sent it. */
export const encodeSpendEvent = (row: StoredContents): typeof SpendEvent.Encoded => {
  const { country, kind, mid, originalId } = row
  const common = {
    integratorId: row.integratorId,
    userId: row.userId,
    externalTransactionId: row.externalTransactionId,
    amount: { currency: row.currency, amount: row.cents.toString() },
    merchant: {
      descriptor: row.descriptor,
      mcc: row.mcc,
      ...(mid === null ? {} : { mid }),
      ...(country === null ? {} : { country })
    },
    occurredAt: printTimestamp(row.occurredAt)
  }
  if (kind === "authorization") return { kind, ...common }
  // the schema's column is nullable, and of these kinds only a clearing may refer to nothing
  if (kind === "clearing") return { kind, ...common, ...(originalId === null ? {} : { authorizationId: originalId }) }
  return kind === "refund"
    ? { kind, ...common, originalTransactionId: originalId ?? "" }
    : { kind, ...common, authorizationId: originalId ?? "" }
}
