import { Schema } from "effect"
import { Country, StoredCountry } from "./Country.ts"
import { IntegratorId, text, TransactionId, UserId } from "./Ids.ts"
import { SpendAmount, StoredAmount } from "./Money.ts"
import { Timestamp } from "./Time.ts"

/** A 4-digit merchant category code. */
export const Mcc = Schema.String.check(Schema.isPattern(/^[0-9]{4}$/, {
  expected: "a 4-digit merchant category code",
  toJsonSchema: () => ({ pattern: "^[0-9]{4}$" })
}))

const merchantIn = (country: typeof Country) =>
  Schema.Struct({
    descriptor: text(1, 200),
    mcc: Mcc,
    mid: Schema.optionalKey(text(1, 64)),
    country: Schema.optionalKey(country)
  }).annotate({
    identifier: "Merchant",
    expected: "an object",
    description: "Where the card was used."
  })

/** The merchant of a purchase. */
export const Merchant = merchantIn(Country)

/** The five kinds of events, with these codes. */
const eventsIn = (amount: typeof SpendAmount, merchant: typeof Merchant) => {
  const common = {
    integratorId: IntegratorId,
    userId: UserId,
    externalTransactionId: TransactionId,
    amount,
    merchant,
    occurredAt: Timestamp
  }
  return Schema.Union([
    Schema.Struct({ kind: Schema.tag("authorization"), ...common }).annotate({
      identifier: "AuthorizationEvent",
      expected: "an object",
      description: "An authorization of the card. It leads to an estimate, never to a reward."
    }),
    Schema.Struct({
      kind: Schema.tag("incremental_authorization"),
      ...common,
      authorizationId: TransactionId
    }).annotate({
      identifier: "IncrementalAuthorizationEvent",
      expected: "an object",
      description: "An increase of an open authorization. `amount` is the increase, not the new total."
    }),
    Schema.Struct({
      kind: Schema.tag("clearing"),
      ...common,
      authorizationId: Schema.optionalKey(TransactionId)
    }).annotate({
      identifier: "ClearingEvent",
      expected: "an object",
      description: "A transaction settled with its final amount. It earns a reward."
    }),
    Schema.Struct({ kind: Schema.tag("reversal"), ...common, authorizationId: TransactionId }).annotate({
      identifier: "ReversalEvent",
      expected: "an object",
      description: "An authorization was voided or expired before clearing."
    }),
    Schema.Struct({ kind: Schema.tag("refund"), ...common, originalTransactionId: TransactionId }).annotate({
      identifier: "RefundEvent",
      expected: "an object",
      description: "A full or partial refund to the cardholder after clearing. `amount` is the amount of this refund."
    })
  ]).annotate({
    identifier: "SpendEvent",
    expected: "an object",
    description: "A card transaction as it happened; `kind` selects the variant."
  })
}

/** Request body of `POST /v1/spend-events` (contract, section 2.1). */
export const SpendEvent = eventsIn(SpendAmount, Merchant)
export type SpendEvent = typeof SpendEvent.Type

/** A {@link SpendEvent} of a response. */
export const StoredSpendEvent: typeof SpendEvent = eventsIn(StoredAmount, merchantIn(StoredCountry))

/** The five kinds. */
export const SpendEventKind = Schema.Literals([
  "authorization",
  "incremental_authorization",
  "clearing",
  "reversal",
  "refund"
])
export type SpendEventKind = typeof SpendEventKind.Type

/** The most that `occurredAt` may be ahead of the service's clock, in milliseconds. */
export const futureToleranceMillis = 60_000

/** Response of `POST /v1/spend-events` (contract, section 2.2). */
export const SpendEventAccepted = Schema.Struct({ id: Schema.String, duplicate: Schema.Boolean }).annotate({
  identifier: "SpendEventAccepted",
  expected: "an object",
  description: "Stored, and processed after this response. `duplicate` is true when the same event was already stored."
})
export type SpendEventAccepted = typeof SpendEventAccepted.Type

/** The id in responses. Two events can have the same id if a user id contains colons, so it is never used as a key. */
export const printId = (
  event: Pick<typeof SpendEvent.Encoded, "integratorId" | "userId" | "kind" | "externalTransactionId">
): string =>
  `se:${event.integratorId}:${event.userId}:${event.kind}:${event.externalTransactionId}`

/** The event to which another one of the same user refers. */
export const Original = Schema.Struct({
  kind: Schema.Literals(["authorization", "clearing"]),
  externalTransactionId: TransactionId
})
export type Original = typeof Original.Type

/** The event to which an event refers, if any (contract, section 2.1). */
export const originalOf = (event: SpendEvent): Original | undefined => {
  switch (event.kind) {
    case "authorization":
      return undefined
    case "clearing":
      return event.authorizationId === undefined
        ? undefined
        : { kind: "authorization", externalTransactionId: event.authorizationId }
    case "incremental_authorization":
    case "reversal":
      return { kind: "authorization", externalTransactionId: event.authorizationId }
    case "refund":
      return { kind: "clearing", externalTransactionId: event.originalTransactionId }
  }
}

/** An event that waits until the event to which it refers has arrived and is applied (decisions, section 9). */
export const WaitingSpendEvent = Schema.Struct({
  id: Schema.String,
  receivedAt: Timestamp,
  waitingFor: Original,
  event: StoredSpendEvent
})
export type WaitingSpendEvent = typeof WaitingSpendEvent.Type

/** A page of waiting events, the latest received first. */
export const WaitingSpendEventPage = Schema.Struct({
  spendEvents: Schema.Array(WaitingSpendEvent),
  next: Schema.optionalKey(Schema.String)
}).annotate({
  identifier: "WaitingSpendEventPage",
  description: "Spend events that wait for another one, the latest received first."
})
export type WaitingSpendEventPage = typeof WaitingSpendEventPage.Type

/** Both counts of a backlog stop here, because an exact count of more events would take long. */
export const maxBacklogCount = 100_000

const backlogCount = (what: string) =>
  Schema.Int.annotate({
    description: `${what}. The count stops at ${maxBacklogCount}, which means that number or more.`
  })

/** The number of stored events that are not processed, and of waiting events, each up to {@link maxBacklogCount}. */
export const SpendEventBacklog = Schema.Struct({
  stored: backlogCount("Stored and not processed yet"),
  waiting: backlogCount("Set aside until the event that they refer to is applied"),
  oldestStoredAt: Schema.optionalKey(Timestamp)
}).annotate({ identifier: "SpendEventBacklog", description: "Spend events that have no effect yet." })
export type SpendEventBacklog = typeof SpendEventBacklog.Type

/** 403: `integratorId` is not the integrator of the key. */
export class IntegratorMismatch extends Schema.TaggedError<IntegratorMismatch>()("IntegratorMismatch", {
  message: Schema.String
}, { httpApiStatus: 403 }) {}

/** 409: the event identity was used with different content. */
export class SpendEventConflict extends Schema.TaggedError<SpendEventConflict>()("SpendEventConflict", {
  message: Schema.String,
  id: Schema.String
}, { httpApiStatus: 409 }) {}

/** 422: `occurredAt` is more than a minute ahead of the service's clock. */
export class EventInFuture extends Schema.TaggedError<EventInFuture>()("EventInFuture", {
  message: Schema.String
}, { httpApiStatus: 422 }) {
  static ahead(): EventInFuture {
    return new EventInFuture({ message: "occurredAt is more than one minute ahead of the service's clock" })
  }
}
