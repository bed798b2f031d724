import { Context, Effect } from "effect"
import { HttpServerError, HttpServerRequest, type HttpServerResponse } from "effect/http"

/**
 * What a segment becomes whose percent-encoding is bad. No identifier may hold NUL, so that the request is refused
 * where its path is decoded: after authentication, as `part: "path"`.
 */
const unreadable = "%00"

/**
 * A request target with each segment in one spelling, which the router reads without ambiguity: a raw `;` or `#`
 * belongs to its segment, `%2f` and `%2F` are equal. Undefined where no route can match: an empty segment, a trailing
 * slash, or no path.
 */
export const canonical = (target: string): string | undefined => {
  const question = target.indexOf("?")
  const path = question === -1 ? target : target.slice(0, question)
  const query = question === -1 ? "" : target.slice(question)
  if (!path.startsWith("/") || path.endsWith("/") || path.includes("//")) return undefined
  if (plain.test(path)) return target
  return path.split("/").map(canonicalSegment).join("/") + query
}

/** Gives the routes each request with its canonical target; one that no route can match fails as in the router. */
export const around = <E, R>(
  routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, E | HttpServerError.HttpServerError, R> =>
  Effect.withFiber<HttpServerResponse.HttpServerResponse, E | HttpServerError.HttpServerError, R>((fiber) => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    const url = canonical(request.url)
    if (url === request.url) return routes
    if (url === undefined) {
      return Effect.fail(
        new HttpServerError.HttpServerError({ reason: new HttpServerError.RouteNotFound({ request }) })
      )
    }
    // the server restores the fiber's context at the end of the request
    fiber.setContext(Context.add(fiber.context, HttpServerRequest.HttpServerRequest, request.modify({ url })))
    return routes
  })

const plain = /^[A-Za-z0-9/_.~-]*$/

const canonicalSegment = (segment: string): string => {
  if (!printableAscii.test(segment)) return unreadable
  try {
    return encodeURIComponent(decodeURIComponent(segment))
  } catch {
    return unreadable
  }
}

const printableAscii = /^[\x21-\x7e]*$/
