import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Context, Effect, Tracer } from "effect"
import { HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"
import { Pipeline } from "../Pipeline.ts"
import * as SpendEvents from "../SpendEvents.ts"

const endpoint = SandboxApi.groups.spendEvents.endpoints.submit

/**
 * Finds posts of spend events, nearly all of the traffic, without the router, and gives them to the same pipeline and
 * the same handler. The router and what Effect puts around each handler took a quarter of the processor time of a
 * request that stores nothing (decision 13).
 */
export const before = Effect.fnUntraced(function*<E, R>(
  routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
) {
  const pipeline = yield* Pipeline
  const answer = pipeline(SpendEvents.submit, endpoint)
  const routeContext = { route: HttpRouter.route(endpoint.method, endpoint.path, answer), params: {} }
  return Effect.withFiber<HttpServerResponse.HttpServerResponse, E, R>((fiber) => {
    const { method, url } = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    if (url !== endpoint.path || method !== endpoint.method) return routes
    // as the router does; the server restores the fiber's context at the end of the request
    const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
    if (span?._tag === "Span" && span.sampled) span.attribute("http.route", endpoint.path)
    fiber.setContext(Context.add(fiber.context, HttpRouter.RouteContext, routeContext))
    return answer
  })
})
