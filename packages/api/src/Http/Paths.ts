import { percentDecoded } from "@card-rewards/core/PercentEncoding"
import { Context, Effect } from "effect"
import { HttpServerError, HttpServerRequest, type HttpServerResponse } from "effect/http"

/**
 * What a segment becomes whose percent-encoding is bad. No identifier may hold NUL, so that the request is refused
 * where its path is decoded: after authentication, as `part: "path"`.
 */
const unreadable = "%00"

/** Segments of a path, at most; no route has more than seven. A bad one takes 8 µs, and a path may have thousands. */
const maxSegments = 10

/**
 * Percent signs within the segments of a path, at most; no identifiers that a path may have, have more. The router
 * copies the path at each of them.
 */
const maxPercentSigns = 700

/**
 * A request target with each segment in one spelling, which the router reads without ambiguity: a raw `;` or `#`
 * belongs to its segment, `%2f` and `%2F` are equal. Undefined where no route can match: an empty segment, a trailing
 * slash, no path, or one with more segments or percent signs than any has. A query whose percent-encoding is bad is
 * read as it stands.
 */
export const canonical = (target: string): string | undefined => {
  const question = target.indexOf("?")
  const path = question === -1 ? target : target.slice(0, question)
  const query = question === -1 ? "" : readable(target.slice(question))
  if (!path.startsWith("/") || path.endsWith("/") || path.includes("//")) return undefined
  if (plain.test(path)) return path + query
  const segments = path.split("/", maxSegments + 2)
  if (segments.length > maxSegments + 1) return undefined
  const spelt = segments.map(canonicalSegment).join("/")
  return spelt.split("%25", maxPercentSigns + 2).length > maxPercentSigns + 1 ? undefined : spelt + query
}

/** The router catches an error for each parameter whose percent-encoding is bad, and a query may have thousands. */
const readable = (query: string): string =>
  query.includes("%") && percentDecoded(query) === undefined ? query.replaceAll("%", "%25") : query

/** Passes each request to the routes with its canonical target; one that no route can match fails as in the router. */
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
  const decoded = printableAscii.test(segment) ? percentDecoded(segment) : undefined
  return decoded === undefined ? unreadable : encodeURIComponent(decoded)
}

const printableAscii = /^[\x21-\x7e]*$/
