import { InternalError, RouteNotFound } from "@card-rewards/domain/Errors"
import { Cause, Effect } from "effect"
import { HttpServerError, HttpServerResponse } from "effect/http"

/** Answers in JSON what no endpoint answers: 404 without a route, 500 after a fault (decisions, section 3). */
export const around = <E, R>(
  routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R> => Effect.catchCause(routes, answerCause)

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
