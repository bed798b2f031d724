import { Schema } from "effect"

/** 400: the request does not have the expected shape. `part` is `body`, `query`, `path` or `headers`. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", {
  message: Schema.String,
  part: Schema.Literals(["body", "query", "path", "headers"])
}, { httpApiStatus: 400 }) {}

/** 401: the key is missing or invalid. */
export class Unauthorized extends Schema.TaggedError<Unauthorized>()("Unauthorized", {
  message: Schema.String
}, { httpApiStatus: 401 }) {}

/** 403: the integrator is suspended. */
export class IntegratorSuspended extends Schema.TaggedError<IntegratorSuspended>()("IntegratorSuspended", {
  message: Schema.String
}, { httpApiStatus: 403 }) {}

/** 404: the resource does not exist for this integrator. */
export class NotFound extends Schema.TaggedError<NotFound>()("NotFound", {
  message: Schema.String,
  resource: Schema.Literals([
    "user",
    "api_key",
    "webhook_endpoint",
    "program",
    "reward",
    "event",
    "replay",
    "spend_event",
    "seal"
  ]),
  id: Schema.String
}, { httpApiStatus: 404 }) {
  static of(resource: NotFound["resource"], id: string): NotFound {
    return new NotFound({ resource, id, message: `There is no ${resource} with this id` })
  }
}

/** 429: too many requests. The response has `Retry-After`. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", {
  message: Schema.String,
  retryAfterSeconds: Schema.Int
}, { httpApiStatus: 429 }) {}

/** 503: temporary; the client may send the same request again. The response has `Retry-After`. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", {
  message: Schema.String
}, { httpApiStatus: 503 }) {}

/** 404: no route has this path and method. */
export class RouteNotFound extends Schema.TaggedError<RouteNotFound>()("RouteNotFound", {
  message: Schema.String
}, { httpApiStatus: 404 }) {}

/** 500: a fault of the service. The message has no details. */
export class InternalError extends Schema.TaggedError<InternalError>()("InternalError", {
  message: Schema.String
}, { httpApiStatus: 500 }) {}
