export type Kind = "authorization" | "incremental_authorization" | "clearing" | "reversal" | "refund"

/** A spend event; `original` is its authorizationId or originalTransactionId. */
export interface Spend {
  readonly user: string
  readonly kind: Kind
  readonly transaction: string
  readonly currency: string
  readonly cents: bigint
  readonly mcc: string
  readonly occurredAt: number
  readonly original?: string
}

export interface StoredSpend extends Spend {
  readonly arrival: number
}

export const keyOf = (user: string, kind: Kind, transaction: string): string =>
  JSON.stringify([user, kind, transaction])

export const originalKey = (spend: Spend): string | undefined => {
  if (spend.original === undefined) return undefined
  return keyOf(spend.user, spend.kind === "refund" ? "clearing" : "authorization", spend.original)
}

export const same = (left: Spend, right: Spend): boolean =>
  left.currency === right.currency && left.cents === right.cents && left.mcc === right.mcc &&
  left.occurredAt === right.occurredAt && left.original === right.original
