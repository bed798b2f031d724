import { IntegratorSuspended, RateLimited, Unavailable } from "@card-rewards/domain/Errors"
import { RequestPipeline } from "@card-rewards/domain/http/RequestPipeline"
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import type { OutageLog } from "./OutageLog.ts"

/** 503 for a request beyond a limit of this process. */
export const busy = Effect.fail(
  new Unavailable({ message: "The service has more to do than it can; send the same request again" })
)

/** 403 for every request with a key of a suspended integrator. */
export const suspended = Effect.fail(new IntegratorSuspended({ message: "The integrator is suspended" }))

/**
 * Answers the errors that an endpoint declares, with the status and the JSON of their schemas; anything else is a
 * defect. What PostgreSQL said goes to the log alone.
 */
export const answering = (endpoint: HttpApiEndpoint.Top, outages: OutageLog) => {
  const encode = encoding([...endpoint.error, ...RequestPipeline.error])
  return (error: object): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
    const encoded = encode(error)
    if (encoded === undefined) return Effect.die(error)
    const { body, status } = encoded
    const answer = HttpServerResponse.jsonUnsafe(body, { status, headers: headersOf(error) })
    return Effect.as(outages.note(error), answer)
  }
}

/** An error's status, and its body. */
interface Encoded {
  readonly status: number | undefined
  readonly body: unknown
}

/** Encodes errors of these schemas; returns undefined for anything else. */
export const encoding = (schemas: ReadonlyArray<Schema.Top>): (error: object) => Encoded | undefined => {
  const known = new Map<unknown, (error: unknown) => Encoded>()
  return (error) => {
    const encode = known.get(error.constructor)
    if (encode !== undefined) return encode(error)
    const schema = schemas.find((schema) => Schema.is(schema)(error))
    if (schema === undefined) return undefined
    const status = Schema.resolveAnnotations(schema)?.httpApiStatus
    // the errors' fields are plain values: encoding them needs no services
    const body = Schema.encodeUnknownSync(schema as Schema.Codec<unknown>)
    known.set(error.constructor, (error) => ({ status, body: body(error) }))
    return { status, body: body(error) }
  }
}

/** Seconds after which a request that was answered 503 may be sent again. */
const retryAfterSeconds = 1

const headersOf = (error: object) => {
  const seconds = error instanceof RateLimited
    ? error.retryAfterSeconds
    : error instanceof Unavailable
    ? retryAfterSeconds
    : undefined
  return seconds === undefined ? undefined : { "retry-after": `${seconds}` }
}
