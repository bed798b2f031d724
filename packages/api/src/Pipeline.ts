import type { ApiKeys, FoundKey } from "@card-rewards/core/ApiKeys"
import { IntegratorSuspended, InvalidRequest, type RateLimited, type Unavailable } from "@card-rewards/domain/Errors"
import { CurrentIntegrator, RequestPipeline } from "@card-rewards/domain/http/RequestPipeline"
import { Clock, Context, Effect, Layer, Option, Schema } from "effect"
import { HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import { clientOf } from "./Pipeline/ClientAddress.ts"
import { ConcurrencyLimit, tooManyInFlight } from "./Pipeline/ConcurrencyLimit.ts"
import { KeyChecks } from "./Pipeline/KeyChecks.ts"
import * as Problems from "./Pipeline/Problems.ts"
import { type RateClass, RateLimit, tooMany } from "./Pipeline/RateLimit.ts"
import { RequestBodies } from "./Pipeline/RequestBodies.ts"

/**
 * Every request to an endpoint other than `/health`, with and without telemetry, after the router found its endpoint:
 * key (401), suspension (403), rate limit (429), body (400), requests in flight (503), handler. Whatever the answer is,
 * it shows the rate limit of an authenticated request (decisions, sections 2 and 8).
 */
export const layer: Layer.Layer<RequestPipeline, never, ApiKeys | RateLimit> = Layer.effect(
  RequestPipeline,
  Effect.gen(function*() {
    const keys = yield* KeyChecks
    const limits = yield* RateLimit
    const bodies = yield* RequestBodies
    const concurrency = yield* ConcurrencyLimit

    return (handler, { endpoint }) => {
      const rateClass = classOf(endpoint)
      const hasBody = endpoint.payload.size > 0
      const decodePath = pathDecoder(endpoint)
      // Effect's type of the handler leaves out that decoding fails
      const decoding: Effect.Effect<
        HttpServerResponse.HttpServerResponse,
        Effect.Error<typeof handler> | HttpApiError.HttpApiSchemaError,
        CurrentIntegrator
      > = handler
      const handle = Effect.catchIf(decoding, HttpApiError.HttpApiSchemaError.is, Problems.refuse)

      type Admitted = Effect.Effect<
        HttpServerResponse.HttpServerResponse,
        Effect.Error<typeof handle> | InvalidRequest | IntegratorSuspended | RateLimited | Unavailable,
        HttpRouter.RouteContext
      >

      return Effect.withFiber((fiber) => {
        const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        const clock = fiber.getRef(Clock.Clock)
        const now = clock.currentTimeMillisUnsafe()

        const limited = (error: RateLimited) => {
          const headers = { "retry-after": `${error.retryAfterSeconds}` }
          HttpEffect.appendPreResponseHandlerUnsafe(fiber.context, setHeaders(headers))
          return Effect.fail(error)
        }
        const admit = ({ integratorId, suspended }: FoundKey): Admitted => {
          const admission = suspended
            ? limits.peek(rateClass, integratorId, now)
            : limits.take(rateClass, integratorId, now)
          HttpEffect.appendPreResponseHandlerUnsafe(fiber.context, setHeaders(admission.headers))
          if (suspended) return Effect.fail(new IntegratorSuspended({ message: "The integrator is suspended" }))
          if (!admission.allowed) return limited(tooMany(admission))
          const enter = (): Admitted =>
            concurrency.enter(rateClass, integratorId, fiber)
              ? Effect.provideService(handle, CurrentIntegrator, { integratorId })
              : Effect.fail(tooManyInFlight())
          return hasBody
            ? Effect.matchEffect(bodies.read(request, integratorId, clock), {
              onFailure: (error): Admitted =>
                error._tag === "InvalidRequest" ? Effect.andThen(decodePath, Effect.fail(error)) : Effect.fail(error),
              onSuccess: (text) => {
                keepText(request, text)
                return enter()
              }
            })
            : enter()
        }

        const apiKey = request.headers["x-api-key"] ?? ""
        const fresh = keys.fresh(apiKey, now)
        if (fresh !== undefined) return admit(fresh)
        const client = clientOf(Option.getOrElse(request.remoteAddress, () => ""))
        return Effect.flatMap(Effect.catchTag(keys.check(apiKey, client), "RateLimited", limited), admit)
      })
    }
  })
).pipe(Layer.provide([KeyChecks.layer, RequestBodies.layer(), ConcurrencyLimit.layer]))

const classOf = (endpoint: { readonly method: string; readonly path: string }): RateClass =>
  endpoint.method === "GET"
    ? "read"
    : endpoint.path === "/v1/spend-events"
    ? "ingest"
    : "manage"

const setHeaders = (headers: Readonly<Record<string, string>>): HttpEffect.PreResponseHandler => (_, response) =>
  Effect.succeed(HttpServerResponse.setHeaders(response, headers))

/** Where path and body are both invalid the answer names the path. */
const pathDecoder = ({ params }: HttpApiEndpoint.Top): Effect.Effect<void, InvalidRequest, HttpRouter.RouteContext> => {
  if (params === undefined) return Effect.void
  // the ids in paths are plain schemas: they need no services
  const decode = Schema.decodeUnknownEffect(params) as (input: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  return Effect.flatMap(HttpRouter.RouteContext, (route) => decode(route.params)).pipe(
    Effect.mapError(({ issue }) => new InvalidRequest({ part: "path", message: Problems.describe("", issue) })),
    Effect.asVoid
  )
}

/** Lets the decoder and the handler take the text that the pipeline has read and checked. */
const keepText = (request: HttpServerRequest.HttpServerRequest, text: string): void => {
  Object.defineProperty(request, "text", { value: Effect.succeed(text) })
}
