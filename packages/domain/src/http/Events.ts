import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { EventNumber, EventPage, WebhookEventKind } from "../Event.ts"
import { PageQuery } from "../Pagination.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

/** What happened, for those who would rather ask than be told, or who missed what they were told. */
export class Events extends HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("list", "/v1/events", {
    query: {
      after: Schema.optionalKey(EventNumber),
      limit: PageQuery.limit,
      kind: Schema.optionalKey(WebhookEventKind)
    },
    success: EventPage
  }).annotateMerge(OpenApi.annotations({
    summary: "Follow the events",
    description: "The webhook bodies themselves, oldest first, also those that were never delivered. `next` is always there and goes to `after`: who follows it sees every event exactly once."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "What happened, oldest first.") {}
