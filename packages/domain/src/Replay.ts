import { Schema } from "effect"
import { WebhookEventKind } from "./Event.ts"
import { text } from "./Ids.ts"
import { Timestamp } from "./Time.ts"

/** A replay's id in a path. */
export const ReplayId = text(1, 128)

const kinds = Schema.optionalKey(
  Schema.Array(WebhookEventKind).check(Schema.isMinLength(1), Schema.isMaxLength(WebhookEventKind.literals.length))
)

/** Request body of a replay: which stored events to deliver again. */
export const ReplayRequest = Schema.Struct({ from: Timestamp, to: Schema.optionalKey(Timestamp), kinds }).annotate({
  identifier: "ReplayRequest",
  expected: "an object",
  description: "The events with `from` ≤ `createdAt` < `to`; without `to` all up to now, without `kinds` of all kinds."
})
export type ReplayRequest = typeof ReplayRequest.Type

/** A repeated delivery of stored events (decisions, section 9). Its times are those of the events. */
export const Replay = Schema.Struct({
  id: Schema.String,
  from: Timestamp,
  to: Timestamp,
  kinds,
  state: Schema.Literals(["running", "done"]),
  events: Schema.Int
}).annotate({
  identifier: "Replay",
  expected: "an object",
  description: "`events` is how many it delivers; with `kinds` they are counted up to 100,000. It is " +
    "`done` once each was delivered, or waits for its next attempt."
})
export type Replay = typeof Replay.Type

/** 422: the endpoint's events are being delivered again already. */
export class ReplayRunning extends Schema.TaggedError<ReplayRunning>()("ReplayRunning", {
  message: Schema.String,
  replayId: Schema.String
}, { httpApiStatus: 422 }) {}
