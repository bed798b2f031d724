import * as Metrics from "@card-rewards/core/Metrics"
import { hasSecret } from "@card-rewards/domain/ApiKey"
import { Clock, Context, Effect, type Fiber, Layer, References } from "effect"
import { HttpEffect, HttpMiddleware, HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"
import { cellOf } from "../Pipeline/RequestCell.ts"

/**
 * Requests of which this process makes spans in one second, at most. Spans cost more processor time than the rest of a
 * request, so that tracing all of them would halve what a process serves; metrics count every request. With 200 of them
 * ingest served 0.74 as many requests as without telemetry, with 50 it serves 0.89.
 */
const maxTracedPerSecond = 50

/** The status that Effect gives to a request whose client has left; it is not sent. */
const clientLeftStatus = 499

/** Known methods: a client may send any word. */
const methods = new Set(["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"])

/**
 * Measures each request by method, route and status, up to the first byte of its answer, and traces some of them.
 * Without telemetry nothing is added. Serve it with {@link untraced}.
 */
export const around = Effect.fnUntraced(function*<E, R>(answer: Answer<E, R>) {
  if (!(yield* Metrics.Enabled)) return answer
  const series = new Series()
  const isTraced = yield* sampling
  return Effect.withFiber((fiber): Answer<E, R | HttpServerRequest.HttpServerRequest> => {
    const clock = fiber.getRef(Clock.Clock)
    const startedNanos = clock.monotonicTimeNanosUnsafe()
    let route: string | undefined
    HttpEffect.appendPreResponseHandlerUnsafe(fiber.context, (request, response) => {
      const seconds = Number(clock.monotonicTimeNanosUnsafe() - startedNanos) / 1e9
      series.of(request, route ?? routeOf(fiber), cellOf(fiber), response).updateUnsafe(seconds, fiber.context)
      return Effect.succeed(response)
    })
    if (!isTraced(Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest))) return answer
    // the server restores the fiber's context at the end of the request
    fiber.setContext(Context.add(fiber.context, References.TracerEnabled, true))
    // the tracer removes the route from the context when it ends the span
    const noteRoute = Effect.sync(() => void (route = routeOf(fiber)))
    return HttpMiddleware.tracer(Effect.ensuring(answer, noteRoute))
  })
})

/**
 * Lets a request make no spans unless {@link around} traces it. Spans are not turned off for each of the others: its
 * fiber would compute anew what it keeps of its context.
 */
export const untraced: Layer.Layer<never> = Layer.succeed(References.TracerEnabled, false)

type Answer<E, R> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>

/** The router leaves the route that it found in the fiber's context. */
const routeOf = (fiber: Fiber.Fiber<unknown, unknown>): string | undefined =>
  Context.getOrUndefined(fiber.context, HttpRouter.RouteContext)?.route.path

/** One histogram for each method, route, status and cell, by OpenTelemetry's conventions for servers. */
class Series {
  readonly #known = new Map<string, ReturnType<typeof Metrics.durations>>()

  of(
    request: HttpServerRequest.HttpServerRequest,
    route: string | undefined,
    cell: string | undefined,
    { status }: HttpServerResponse.HttpServerResponse
  ) {
    const method = methods.has(request.method) ? request.method : "_OTHER"
    const key = `${method} ${route} ${status} ${cell}`
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const histogram = Metrics.durations(
      "http.server.request.duration",
      "Duration of HTTP requests, to the answer's first byte",
      {
        "http.request.method": method,
        ...(route === undefined ? {} : { "http.route": route }),
        ...(cell === undefined ? {} : { "card_rewards.cell": cell }),
        ...outcomeOf(status)
      }
    )
    this.#known.set(key, histogram)
    return histogram
  }
}

const outcomeOf = (status: number): Readonly<Record<string, string>> =>
  status === clientLeftStatus
    ? { "error.type": "cancelled" }
    : { "http.response.status_code": `${status}`, ...(status >= 500 ? { "error.type": `${status}` } : {}) }

/**
 * Which requests are traced: none of `/health`, which a load balancer sends every few seconds, and none with a key or
 * secret in the place of an id, or in a query, which would be exported with the span.
 */
const sampling = Effect.clockWith((clock) => {
  let second = 0
  let traced = 0
  return Effect.succeed((request: HttpServerRequest.HttpServerRequest): boolean => {
    if (request.url === "/health") return false
    const now = Math.floor(clock.currentTimeMillisUnsafe() / 1_000)
    if (now !== second) [second, traced] = [now, 0]
    return ++traced <= maxTracedPerSecond && !hasSecret(request.url)
  })
})
