import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Delivery, DeliveryPage, DeliveryState, EventId } from "../Delivery.ts"
import { NotFound } from "../Errors.ts"
import { EndpointId } from "../Ids.ts"
import { PageQuery } from "../Pagination.ts"
import { Replay, ReplayId, ReplayRequest, ReplayRunning } from "../Replay.ts"
import {
  EndpointAddress,
  EndpointUrlRefused,
  SecretRotated,
  WebhookEndpoint,
  WebhookEndpointConflict,
  WebhookEndpointCreated,
  WebhookEndpointCreation,
  WebhookEndpointLimit
} from "../WebhookEndpoint.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

const params = { id: EndpointId }
const success = Schema.Struct({ endpoint: WebhookEndpoint }).annotate({
  description: "The present endpoint, or the deleted one."
})

/** The receivers of events: one endpoint per integrator. */
export class WebhookEndpoints extends HttpApiGroup.make("webhookEndpoints").add(
  HttpApiEndpoint.get("list", "/v1/webhook-endpoints", {
    success: Schema.Struct({ endpoints: Schema.Array(WebhookEndpoint) }).annotate({
      description: "The endpoint, or none."
    })
  }).annotateMerge(OpenApi.annotations({
    summary: "List webhook endpoints",
    description: "The endpoint, if there is one, without its secret."
  })),
  HttpApiEndpoint.post("create", "/v1/webhook-endpoints", {
    payload: WebhookEndpointCreation,
    success: WebhookEndpointCreated.pipe(HttpApiSchema.status(201)),
    error: [WebhookEndpointConflict, WebhookEndpointLimit, EndpointUrlRefused]
  }).annotateMerge(OpenApi.annotations({
    summary: "Create the webhook endpoint",
    description: "The URL must be https with a public host name: IP addresses, local or internal names, credentials "
      + "and fragments are refused. Deliveries start within a minute. The same request again is 201 with "
      + "`duplicate: true` and without `secret`; the same id with another URL is 409."
  })),
  HttpApiEndpoint.get("get", "/v1/webhook-endpoints/:id", { params, success, error: NotFound }).annotateMerge(
    OpenApi.annotations({ summary: "Read a webhook endpoint", description: "The endpoint without its secret." })
  ),
  HttpApiEndpoint.patch("update", "/v1/webhook-endpoints/:id", {
    params,
    payload: Schema.Struct({ url: EndpointAddress }),
    success,
    error: [NotFound, EndpointUrlRefused]
  }).annotateMerge(OpenApi.annotations({
    summary: "Change the URL",
    description: "The secret does not change. Pending deliveries go to the new URL within a minute."
  })),
  HttpApiEndpoint.delete("remove", "/v1/webhook-endpoints/:id", { params, success, error: NotFound }).annotateMerge(
    OpenApi.annotations({
      summary: "Delete a webhook endpoint",
      description: "Deliveries stop within a minute. The id can be used again for a new endpoint, which has a new " +
        "secret."
    })
  ),
  HttpApiEndpoint.post("rotateSecret", "/v1/webhook-endpoints/:id/rotate-secret", {
    params,
    success: SecretRotated,
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Rotate the signing secret",
    description: "Each call creates a new secret, which signs within a minute; if the response is lost, call again. " +
      "A replaced secret still signs for 24 hours, up to four of them; `previousSecretExpiresAt` is the end of that " +
      "time."
  })),
  HttpApiEndpoint.get("deliveries", "/v1/webhook-endpoints/:id/deliveries", {
    params,
    query: { ...PageQuery, state: Schema.optionalKey(DeliveryState) },
    success: DeliveryPage,
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "List deliveries",
    description: "The deliveries to this endpoint, newest first, each with its newest attempts, 51 at most. Attempts " +
      "are kept for 90 days, unless the operator chose another time. An event that was redelivered has several " +
      "deliveries."
  })),
  HttpApiEndpoint.post("redeliver", "/v1/webhook-endpoints/:id/deliveries/:eventId/redeliver", {
    params: { ...params, eventId: EventId },
    success: Schema.Struct({ delivery: Delivery }).annotate({ description: "The new delivery." }).pipe(
      HttpApiSchema.status(202)
    ),
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Deliver an event again",
    description: "A new delivery of the same bytes, due at once, for any stored event. A pending delivery with " +
      "attempts is cancelled and replaced; a pending delivery without attempts is returned unchanged, so the request " +
      "is safe to repeat until the first attempt."
  })),
  HttpApiEndpoint.post("startReplay", "/v1/webhook-endpoints/:id/replays", {
    params,
    payload: ReplayRequest,
    success: Schema.Struct({ replay: Replay }).annotate({ description: "The replay." }).pipe(
      HttpApiSchema.status(202)
    ),
    error: [NotFound, ReplayRunning]
  }).annotateMerge(OpenApi.annotations({
    summary: "Deliver the events of a time again",
    description: "Delivers stored events again, also those from before the endpoint: the same bytes, the events of a " +
      "reward in their order, new events first. An endpoint has one replay at a time."
  })),
  HttpApiEndpoint.get("getReplay", "/v1/webhook-endpoints/:id/replays/:replayId", {
    params: { ...params, replayId: ReplayId },
    success: Schema.Struct({ replay: Replay }).annotate({ description: "The replay." }),
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Read a replay",
    description: "How many events it delivers, and whether it is done. The newest 100 of an endpoint are kept."
  })),
  HttpApiEndpoint.post("ping", "/v1/webhook-endpoints/:id/ping", {
    params,
    success: Schema.Struct({ eventId: Schema.String }).annotate({ description: "The ping's event." }).pipe(
      HttpApiSchema.status(202)
    ),
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Send a ping",
    description: "An event of kind `webhook.ping` with empty `data`, which is delivered like any other and is in the " +
      "event log."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "The endpoint that receives the events, one per integrator, and its deliveries.") {}
