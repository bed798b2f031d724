import { InternalError, RouteNotFound } from "@card-rewards/domain/Errors"
import { ByteSize, Cause, Effect } from "effect"
import { HttpIncomingMessage, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Paths from "./Paths.ts"
import { maxBytes } from "./Body.ts"

/** Seconds after which a request that met 503 may be sent again. */
const unavailableRetrySeconds = 1

/**
 * What surrounds every request: paths as the decisions read them, the limit on bodies, and an answer in JSON for what
 * no route answers (decisions, section 3).
 */
export const around = <E, R>(
  routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R | HttpServerRequest.HttpServerRequest> =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const url = Paths.canonical(request.url)
    if (url === undefined) return notFound
    const response = yield* routes.pipe(
      Effect.provideService(
        HttpServerRequest.HttpServerRequest,
        url === request.url ? request : request.modify({ url })
      ),
      Effect.provideService(HttpIncomingMessage.MaxBodySize, maxBodySize),
      Effect.catchCause(answerCause)
    )
    return response.status === 503
      ? HttpServerResponse.setHeader(response, "retry-after", `${unavailableRetrySeconds}`)
      : response
  })

const maxBodySize = ByteSize.bytes(maxBytes)

const answerCause = (cause: Cause.Cause<unknown>): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  if (cause.reasons.some((reason) => reason._tag === "Fail" && isRouteNotFound(reason.error))) {
    return Effect.succeed(notFound)
  }
  // only the caller's own leaving, or the process's end, interrupts a request
  if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
  return Effect.as(Effect.logError("A request met a fault of the service", cause), internalError)
}

const isRouteNotFound = (error: unknown): boolean =>
  HttpServerError.isHttpServerError(error) && error.reason._tag === "RouteNotFound"

const answer = (status: number, error: RouteNotFound | InternalError) =>
  HttpServerResponse.jsonUnsafe({ _tag: error._tag, message: error.message }, { status })

const notFound = answer(404, new RouteNotFound({ message: "There is no such route, or not with this method" }))

const internalError = answer(500, new InternalError({ message: "The service failed; the fault has been recorded" }))
