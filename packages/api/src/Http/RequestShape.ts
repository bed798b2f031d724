import { InvalidRequest } from "@card-rewards/domain/Errors"
import { RequestShape } from "@card-rewards/domain/http/Authorization"
import { Context, Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import * as Body from "./Body.ts"
import * as Problems from "./Problems.ts"
import * as ShortWay from "./ShortWay.ts"

/**
 * What does not decode is the contract's 400, with the part that is wrong. The router would read an absent content type as
 * JSON, replace invalid UTF-8 and end in a defect for a body that cannot be read; the contract wants a 400 for each.
 */
export const layer: Layer.Layer<RequestShape> = Layer.succeed(
  RequestShape,
  (handler, { endpoint }) =>
    (endpoint.payload.size === 0 ? handler : withBody(handler, endpoint)).pipe(
      Effect.catchIf(HttpApiError.HttpApiSchemaError.is, refuse)
    )
)

/** The handler with the body's text at hand, if that is JSON to be parsed. */
const withBody = <A, E, R>(handler: Effect.Effect<A, E, R>, endpoint: HttpApiEndpoint.Top) =>
  Effect.withFiber((fiber) => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    const contentType = request.headers["content-type"]
    if (contentType === undefined || !isJson(contentType)) {
      return unparsable(endpoint, "expected the content type application/json")
    }
    return (fiber.getRef(ShortWay.Handed)?.body ?? Body.read(request)).pipe(
      Effect.mapError((reason) => unread[reason]),
      Effect.flatMap((bytes) => {
        const text = Body.textOf(bytes)
        if (typeof text !== "string") return Effect.fail(text.problem)
        Body.keepText(request, text)
        return Effect.void
      }),
      Effect.catch((problem) => unparsable(endpoint, problem)),
      Effect.andThen(handler)
    )
  })

const unread: Readonly<Record<Body.Unread, string>> = {
  "too large": `expected a body of at most ${Body.maxBytes} bytes`,
  unreadable: "the body could not be read"
}

/** A wrong path is told before a wrong body. */
const unparsable = (endpoint: HttpApiEndpoint.Top, message: string) =>
  Effect.andThen(checkPath(endpoint), Effect.fail(new InvalidRequest({ part: "body", message })))

const isJson = (contentType: string): boolean =>
  /^\s*application\/json\s*(;\s*charset\s*=\s*"?utf-?8"?\s*)?;?\s*$/i.test(contentType)

const checkPath = Effect.fnUntraced(function*(endpoint: HttpApiEndpoint.Top) {
  if (endpoint.params === undefined) return
  const { params } = yield* HttpRouter.RouteContext
  // @effect-diagnostics-next-line unsafeEffectTypeAssertion:off anyUnknownInErrorContext:off -- the ids in paths are plain schemas: they need no services
  const decoded = Schema.decodeUnknownEffect(endpoint.params)(params) as Effect.Effect<unknown, Schema.SchemaError>
  yield* Effect.mapError(decoded, (cause) => new HttpApiError.HttpApiSchemaError({ kind: "Params", cause }))
})

const refuse = (error: HttpApiError.HttpApiSchemaError) => {
  switch (error.kind) {
    case "Payload":
      return invalid("body", "$", error)
    case "Query":
      return invalid("query", "", error)
    case "Params":
      return invalid("path", "", error)
    case "Headers":
      return invalid("headers", "", error)
    case "Body":
    case "ResponseHeaders":
      return Effect.die(error)
  }
}

const invalid = (part: InvalidRequest["part"], root: string, error: HttpApiError.HttpApiSchemaError) =>
  Effect.fail(new InvalidRequest({ part, message: Problems.describe(root, error.cause.issue) }))
