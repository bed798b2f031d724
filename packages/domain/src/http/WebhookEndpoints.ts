import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { NotFound } from "../Errors.ts"
import { EndpointId } from "../Ids.ts"
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
import { Authorization, RequestShape } from "./Authorization.ts"

const params = { id: EndpointId }
const success = Schema.Struct({ endpoint: WebhookEndpoint })

/** Where events go, one endpoint per integrator. */
export class WebhookEndpoints extends HttpApiGroup.make("webhookEndpoints").add(
  HttpApiEndpoint.get("list", "/v1/webhook-endpoints", {
    success: Schema.Struct({ endpoints: Schema.Array(WebhookEndpoint) })
  }),
  HttpApiEndpoint.post("create", "/v1/webhook-endpoints", {
    payload: WebhookEndpointCreation,
    success: WebhookEndpointCreated.pipe(HttpApiSchema.status(201)),
    error: [WebhookEndpointConflict, WebhookEndpointLimit, EndpointUrlRefused]
  }),
  HttpApiEndpoint.get("get", "/v1/webhook-endpoints/:id", { params, success, error: NotFound }),
  HttpApiEndpoint.patch("update", "/v1/webhook-endpoints/:id", {
    params,
    payload: Schema.Struct({ url: EndpointAddress }),
    success,
    error: [NotFound, EndpointUrlRefused]
  }),
  HttpApiEndpoint.delete("remove", "/v1/webhook-endpoints/:id", { params, success, error: NotFound }),
  HttpApiEndpoint.post("rotateSecret", "/v1/webhook-endpoints/:id/rotate-secret", {
    params,
    success: SecretRotated,
    error: NotFound
  })
).middleware(RequestShape).middleware(Authorization) {}
