import * as Metrics from "@card-rewards/core/Metrics"
import { Clock, Context, Effect, type Exit } from "effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"

/** By OpenTelemetry's conventions for servers. */
const duration = Metrics.durations("http.server.request.duration", "Duration of HTTP requests, to the answer's first byte")

/** A method of which there are no others than these; anybody may send any word. */
const methods = new Set(["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"])

type Answering<E, R> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>

/**
 * What `border` makes of the routes, each request measured by method, route and status. Without telemetry nothing is
 * added.
 */
export const around = Effect.fnUntraced(function*<E, R, E2, R2>(
  routes: Answering<E, R>,
  border: (routes: Answering<E, R>) => Answering<E2, R2>
) {
  if (!(yield* Metrics.On)) return border(routes)
  const matched = new WeakMap<object, string>()
  const noting = Effect.withFiber<HttpServerResponse.HttpServerResponse, E, R>((fiber) => {
    const { source } = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    // the router leaves the route that it found in the fiber's context
    return Effect.onExit(routes, () =>
      Effect.sync(() => {
        const found = Context.getOrUndefined(fiber.context, HttpRouter.RouteContext)
        if (found !== undefined) matched.set(source, found.route.path)
      }))
  })
  const answer = border(noting)
  return Effect.gen(function*() {
    const { source } = yield* HttpServerRequest.HttpServerRequest
    const begun = yield* Clock.monotonicTimeNanos
    return yield* Effect.onExit(answer, (exit) => measure(begun, matched.get(source), exit))
  })
})

const measure = Effect.fnUntraced(function*<E>(
  begun: bigint,
  route: string | undefined,
  exit: Exit.Exit<HttpServerResponse.HttpServerResponse, E>
) {
  const { method } = yield* HttpServerRequest.HttpServerRequest
  yield* Metrics.add(duration, yield* Metrics.secondsSince(begun), {
    "http.request.method": methods.has(method) ? method : "_OTHER",
    ...(route === undefined ? {} : { "http.route": route }),
    ...outcomeOf(exit)
  })
})

/** Who leaves before the answer has no status. */
const outcomeOf = <E>(exit: Exit.Exit<HttpServerResponse.HttpServerResponse, E>): Readonly<Record<string, string>> => {
  if (exit._tag === "Failure") return { "error.type": "cancelled" }
  const status = `${exit.value.status}`
  return { "http.response.status_code": status, ...(exit.value.status >= 500 ? { "error.type": status } : {}) }
}

/** A balancer asks for its health every few seconds: that is no trace. */
export const untracedHealth = HttpMiddleware.layerTracerDisabledForUrls(["/health"])
