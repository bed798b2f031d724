import { Schema } from "effect"
import { InvalidRequest } from "./Errors.ts"
import { EventInFuture, IntegratorMismatch, SpendEvent, SpendEventAccepted, SpendEventConflict } from "./SpendEvent.ts"
import { UserNotEnrolled } from "./User.ts"

/** The most events of one batch (decisions, section 9). */
export const maxBatchEvents = 500

/** A batch of spend events, whatever has been decoded of them. */
export const batchOf = <Event extends Schema.Constraint>(event: Event) =>
  Schema.Struct({ events: Schema.Array(event).check(Schema.isMinLength(1), Schema.isMaxLength(maxBatchEvents)) })

/** Request body of `POST /v1/spend-events/batch`. */
export const SpendEventBatch = batchOf(SpendEvent).annotate({
  identifier: "SpendEventBatch",
  expected: "an object",
  description: `1 to ${maxBatchEvents} spend events. Those of one user are taken in the order of the list.`
})
export type SpendEventBatch = typeof SpendEventBatch.Type

/** The errors of single events. */
export const spendEventErrors = [
  InvalidRequest,
  IntegratorMismatch,
  SpendEventConflict,
  EventInFuture,
  UserNotEnrolled
] as const

/** What the same event would have been answered alone (decisions, section 9). */
export const SpendEventResult = Schema.Union([
  Schema.Struct({ status: Schema.Literal(202), ...SpendEventAccepted.fields }),
  Schema.Struct({ status: Schema.Literals([400, 403, 409, 422]), error: Schema.Union(spendEventErrors) })
]).annotate({
  identifier: "SpendEventResult",
  description: "What the event would have been answered alone: its status with `id` and `duplicate`, or with `error`."
})
export type SpendEventResult = typeof SpendEventResult.Type

/** Response of `POST /v1/spend-events/batch`. */
export const SpendEventResults = Schema.Struct({ results: Schema.Array(SpendEventResult) }).annotate({
  identifier: "SpendEventResults",
  description: "A result for each event, in the order of the request."
})
export type SpendEventResults = typeof SpendEventResults.Type
