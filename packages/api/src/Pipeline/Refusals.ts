import { IntegratorSuspended, RateLimited, Unavailable } from "@card-rewards/domain/Errors"
import { RequestPipeline } from "@card-rewards/domain/http/RequestPipeline"
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"

/** 503 for a request beyond a limit of this process. */
export const busy = Effect.fail(
  new Unavailable({ message: "The service has more to do than it can; send the same request again" })
)

/** 403 for every request with a key of a suspended integrator. */
export const suspended = Effect.fail(new IntegratorSuspended({ message: "The integrator is suspended" }))

type Answer = (error: unknown) => HttpServerResponse.HttpServerResponse

/**
 * Answers the errors that an endpoint declares, with the status and the JSON of their schemas; anything else is a
 * defect.
 */
export const answering = (endpoint: HttpApiEndpoint.Top) => {
  const schemas = [...endpoint.error, ...RequestPipeline.error]
  const answers = new Map<unknown, Answer>()
  return (error: object): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
    const known = answers.get(error.constructor)
    if (known !== undefined) return Effect.succeed(known(error))
    const schema = schemas.find((schema) => Schema.is(schema)(error))
    if (schema === undefined) return Effect.die(error)
    const answer = answerOf(schema)
    answers.set(error.constructor, answer)
    return Effect.succeed(answer(error))
  }
}

/** Seconds after which a request that was answered 503 may be sent again. */
const retryAfterSeconds = 1

const answerOf = (schema: Schema.Top): Answer => {
  const status = Schema.resolveAnnotations(schema)?.httpApiStatus
  // the errors' fields are plain values: encoding them needs no services
  const encode = Schema.encodeUnknownSync(schema as Schema.Codec<unknown>)
  return (error) => {
    const seconds = error instanceof RateLimited
      ? error.retryAfterSeconds
      : error instanceof Unavailable
      ? retryAfterSeconds
      : undefined
    const headers = seconds === undefined ? undefined : { "retry-after": `${seconds}` }
    return HttpServerResponse.jsonUnsafe(encode(error), { status, headers })
  }
}
