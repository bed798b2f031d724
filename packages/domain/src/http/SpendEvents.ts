import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { PageQuery } from "../Pagination.ts"
import {
  EventInFuture,
  IntegratorMismatch,
  maxBacklogCount,
  SpendEvent,
  SpendEventAccepted,
  SpendEventBacklog,
  SpendEventConflict,
  WaitingSpendEventPage
} from "../SpendEvent.ts"
import { UserNotEnrolled } from "../User.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

/** Spend events, which are stored before the response and processed after it. */
export class SpendEvents extends HttpApiGroup.make("spendEvents").add(
  HttpApiEndpoint.post("submit", "/v1/spend-events", {
    payload: SpendEvent,
    success: SpendEventAccepted.pipe(HttpApiSchema.status(202)),
    error: [IntegratorMismatch, SpendEventConflict, EventInFuture, UserNotEnrolled]
  }).annotateMerge(OpenApi.annotations({
    summary: "Submit a spend event",
    description: "Stores the event and responds 202; the event is processed after the response. The same identity " +
      "(user, kind, externalTransactionId) with the same content again is 202 with `duplicate: true` and changes " +
      "nothing; with other content it is 409. After a timeout or 503, send the same body again. An event that " +
      "arrives before the one to which it refers waits, and is applied once that arrives."
  })),
  HttpApiEndpoint.get("waiting", "/v1/spend-events", {
    query: { ...PageQuery, state: Schema.Literal("waiting") },
    success: WaitingSpendEventPage
  }).annotateMerge(OpenApi.annotations({
    summary: "List spend events that wait for another one",
    description: "Events that wait because the one to which they refer has not been applied yet, the latest received " +
      "first."
  })),
  HttpApiEndpoint.get("backlog", "/v1/spend-events/backlog", { success: SpendEventBacklog }).annotateMerge(
    OpenApi.annotations({
      summary: "Count spend events that have no effect yet",
      description: "How many events are stored and not processed yet, and how many wait for another event. Each " +
        `count stops at ${maxBacklogCount}.`
    })
  )
).middleware(RequestPipeline)
  .annotate(
    OpenApi.Description,
    "Spend events: the steps of card transactions. They are stored before the response and processed after it."
  )
{}
