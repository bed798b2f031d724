import { Effect, Semaphore, type Types } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { listOf } from "../ContentTypes.ts"

/** A file in memory. It is compressed once, outside the event loop. */
export interface StaticFile {
  readonly type: string
  readonly bytes: Uint8Array
  /** Absent for fonts, which are compressed already. */
  readonly gzipped: Uint8Array | undefined
  /** A weak tag, since it stands for both encodings. */
  readonly etag: string
}

/** Files up to this size are held in memory: the largest, `/docs`, has 2 MB. */
const maxFileBytes = 8 * 1_024 * 1_024

const compress = promisify(gzip)

/** Prepares a file for {@link serve}; a file of more than {@link maxFileBytes} is a defect. */
export const make = (type: string, bytes: Uint8Array): Effect.Effect<StaticFile> =>
  Effect.promise(async () => {
    if (bytes.byteLength > maxFileBytes) throw new RangeError(`a static file of ${bytes.byteLength} bytes`)
    const gzipped = type.startsWith("font/") ? undefined : await compress(bytes)
    const digest = createHash("sha256").update(bytes).digest("base64url")
    return { type, bytes, gzipped, etag: `W/"${digest}"` }
  })

/**
 * Answers a request for the file: 304 where the client has it already, else in the encoding that it accepts. Without
 * `cache-control` among the headers, a client asks again each time.
 */
export const serve = Effect.fnUntraced(function*(file: StaticFile, headers: Readonly<Record<string, string>>) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const shared = { "cache-control": "no-cache", ...headers, vary: "accept-encoding", etag: file.etag }
  if (has(request.headers["if-none-match"], file.etag)) {
    return HttpServerResponse.empty({ status: 304, headers: shared })
  }
  const isGzipped = file.gzipped !== undefined && acceptsGzip(request.headers["accept-encoding"])
  return HttpServerResponse.uint8Array(isGzipped ? file.gzipped : file.bytes, {
    contentType: file.type,
    headers: isGzipped ? { ...shared, "content-encoding": "gzip" } : shared
  })
})

/**
 * Keeps its route's first response as a file, edited, and answers every later request from it. Provide it to one route
 * only.
 */
export const ofRoute = (
  headers: Readonly<Record<string, string>>,
  edit: (bytes: Uint8Array) => Uint8Array = (bytes) => bytes
) =>
  HttpRouter.middleware(Effect.map(Semaphore.make(1), (preparing) => {
    let known: StaticFile | undefined
    return (route: Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled>) => {
      const prepare = Effect.gen(function*() {
        if (known !== undefined) return known
        const { body } = yield* route
        if (body._tag !== "Uint8Array") return yield* Effect.die(new Error("the route answers no text"))
        return known = yield* make(body.contentType, edit(body.body))
      })
      return Effect.suspend(() => known === undefined ? preparing.withPermit(prepare) : Effect.succeed(known)).pipe(
        Effect.flatMap((file) => serve(file, headers))
      )
    }
  })).layer

const has = (ifNoneMatch: string | undefined, etag: string): boolean =>
  ifNoneMatch !== undefined && ifNoneMatch.split(",").some((one) => one.trim() === etag || one.trim() === "*")

/** Whether `gzip` is listed, or `*` is, and not with a weight of zero (RFC 9110, section 12.5.3). */
const acceptsGzip = (acceptEncoding: string | undefined): boolean => {
  const weights = new Map(listOf(acceptEncoding).map(([coding, ...parameters]) =>
    [coding, parameters.every((parameter) => !/^q=0(\.0*)?$/.test(parameter))]))
  return weights.get("gzip") ?? weights.get("*") ?? false
}
