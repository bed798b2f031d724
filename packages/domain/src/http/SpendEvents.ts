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
import { maxBatchEvents, SpendEventBatch, SpendEventResults } from "../SpendEventBatch.ts"
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
  HttpApiEndpoint.post("submitBatch", "/v1/spend-events/batch", {
    payload: SpendEventBatch,
    success: SpendEventResults
  }).annotateMerge(OpenApi.annotations({
    summary: "Submit many spend events",
    description: `Stores 1 to ${maxBatchEvents} events, in a body of up to 1 MiB, and responds 200 with a result for ` +
      "each: the status and the body that the same event would have got alone. One bad event harms no other one, " +
      "unless it has more than 2,000 keys or 62 levels, or the batch more than 65,536 values. " +
      "Those of one user are taken in the order of the list. A batch counts as its events against the rate limit; a " +
      "429 or 503 means that it may have to be sent again as a whole, which is harmless: what is stored is " +
      "recognised as a duplicate."
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
