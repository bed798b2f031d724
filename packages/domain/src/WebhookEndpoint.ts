import { Schema } from "effect"
import { EndpointId, text } from "./Ids.ts"
import { dayMillis, Timestamp } from "./Time.ts"

/** How long a replaced secret still signs, and how many replaced ones are kept (contract, section 3.4). */
export const replacedSecretMillis = dayMillis
export const maxReplacedSecrets = 4

/** The URL of an endpoint; `EndpointUrl.ts` has its other rules. */
export const EndpointAddress = text(1, 2048)

/** A webhook endpoint (contract, section 2.8). Only creation and rotation return its secret. */
export const WebhookEndpoint = Schema.Struct({
  id: EndpointId,
  url: EndpointAddress,
  createdAt: Timestamp,
  previousSecretExpiresAt: Schema.optionalKey(Timestamp),
  lag: Schema.optionalKey(Schema.Int)
}).annotate({
  identifier: "WebhookEndpoint",
  expected: "an object",
  description: "The receiver of the events. `previousSecretExpiresAt` is the expiry of the latest replaced secret. " +
    "`lag`, in responses to GET alone, is how many events the endpoint is behind: the number of events since the " +
    "first one that is neither delivered nor waiting for another attempt; 0 if there is none."
})
export type WebhookEndpoint = typeof WebhookEndpoint.Type

/** Request body of a creation. */
export const WebhookEndpointCreation = Schema.Struct({ id: EndpointId, url: EndpointAddress }).annotate({
  identifier: "WebhookEndpointCreation",
  expected: "an object",
  description: "An id of your choice, and an https URL with a public host name."
})

/** Response of a creation. It has the `secret` only the first time. */
export const WebhookEndpointCreated = Schema.Struct({
  endpoint: WebhookEndpoint,
  secret: Schema.optionalKey(Schema.String),
  duplicate: Schema.Boolean
}).annotate({
  identifier: "WebhookEndpointCreated",
  expected: "an object",
  description: "The endpoint, and its signing secret the first time only."
})
export type WebhookEndpointCreated = typeof WebhookEndpointCreated.Type

/** Response of a rotation. */
export const SecretRotated = Schema.Struct({ endpoint: WebhookEndpoint, secret: Schema.String }).annotate({
  identifier: "SecretRotated",
  expected: "an object",
  description: "The endpoint and its new signing secret, which is shown only once."
})
export type SecretRotated = typeof SecretRotated.Type

/** 409: the id is in use with another URL. */
export class WebhookEndpointConflict extends Schema.TaggedError<WebhookEndpointConflict>()("WebhookEndpointConflict", {
  message: Schema.String,
  id: Schema.String
}, { httpApiStatus: 409 }) {}

/** 422: the integrator already has an endpoint. */
export class WebhookEndpointLimit extends Schema.TaggedError<WebhookEndpointLimit>()("WebhookEndpointLimit", {
  message: Schema.String
}, { httpApiStatus: 422 }) {}

/** 422: the URL violates the URL rules. */
export class EndpointUrlRefused extends Schema.TaggedError<EndpointUrlRefused>()("EndpointUrlRefused", {
  message: Schema.String
}, { httpApiStatus: 422 }) {}
