import { InternalError, RouteNotFound } from "@card-rewards/domain/Errors"
import { Cause, Context, Effect } from "effect"
import { HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Paths from "./Paths.ts"

/** Seconds after which a request that was answered 503 may be sent again. */
const retryAfter = "1"

/**
 * What surrounds the router for every request: paths as the decisions read them, and an answer in JSON for what no
 * route answers (decisions, section 3).
 */
export const around = <E, R>(
  routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R | HttpServerRequest.HttpServerRequest> => {
  const answered = Effect.matchCauseEffect(routes, {
    onSuccess: (response) =>
      Effect.succeed(
        response.status === 503 ? HttpServerResponse.setHeader(response, "retry-after", retryAfter) : response
      ),
    onFailure: answerCause
  })
  return Effect.withFiber((fiber) => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    const url = Paths.canonical(request.url)
    if (url === request.url) return answered
    if (url === undefined) return Effect.succeed(notFound)
    // the server restores the fiber's context at the end of the request
    fiber.setContext(Context.add(fiber.context, HttpServerRequest.HttpServerRequest, request.modify({ url })))
    return answered
  })
}

const answerCause = (cause: Cause.Cause<unknown>): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  if (cause.reasons.some((reason) => reason._tag === "Fail" && isRouteNotFound(reason.error))) {
    return Effect.succeed(notFound)
  }
  // a request is interrupted only when its client disconnects or the process ends
  if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
  return Effect.as(Effect.logError("A request met a fault of the service", cause), internalError)
}

const isRouteNotFound = (error: unknown): boolean =>
  HttpServerError.isHttpServerError(error) && error.reason._tag === "RouteNotFound"

const answer = (status: number, error: RouteNotFound | InternalError) =>
  HttpServerResponse.jsonUnsafe({ _tag: error._tag, message: error.message }, { status })

const notFound = answer(404, new RouteNotFound({ message: "There is no such route, or not with this method" }))

const internalError = answer(500, new InternalError({ message: "The service failed; the fault has been recorded" }))
