import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { EventPage, WebhookEventKind } from "../Event.ts"
import { LogNumber, PageQuery } from "../Pagination.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

/** The event log, for integrators that poll instead of receiving webhooks, or that have missed some. */
export class Events extends HttpApiGroup.make("events").add(
  HttpApiEndpoint.get("list", "/v1/events", {
    query: {
      after: Schema.optionalKey(LogNumber),
      limit: PageQuery.limit,
      kind: Schema.optionalKey(WebhookEventKind)
    },
    success: EventPage
  }).annotateMerge(OpenApi.annotations({
    summary: "Read the event log",
    description: "The webhook bodies, oldest first, including those that were never delivered: at most `limit`, and " +
      "at most 1 MiB or one event. `next` is always present: pass it as `after`, and you read every event exactly " +
      "once. Only an empty page is the last one."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "The event log: every change of a reward and of the vault, oldest first.") {}
