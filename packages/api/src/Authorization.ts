import { IntegratorSuspended, RateLimited } from "@card-rewards/domain/Errors"
import { Authorization, CurrentIntegrator } from "@card-rewards/domain/http/Authorization"
import { Effect, Layer, Option, Redacted } from "effect"
import { HttpEffect, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as InWork from "./Authorization/InWork.ts"
import { KeyChecks, unauthorized } from "./Authorization/KeyChecks.ts"
import { type Admission, type RateClass, RateLimit } from "./RateLimit.ts"

/**
 * Who asks, and may they? In this order: 401, 403 for a suspended integrator, 429, 503 for too much at once; all before the
 * request is decoded (decisions, section 2). Every authenticated answer tells the rate limit.
 */
export const layer: Layer.Layer<Authorization, never, KeyChecks | RateLimit> = Layer.effect(
  Authorization,
  Effect.gen(function*() {
    const keys = yield* KeyChecks
    const limits = yield* RateLimit
    const within = InWork.make()

    const refuse = Effect.fnUntraced(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      const failure = yield* limits.takeFailure(Option.getOrElse(request.remoteAddress, () => ""))
      if (!failure.allowed) yield* tell({ "retry-after": `${failure.retryAfterSeconds}` })
      return yield* failure.allowed ? unauthorized() : tooMany(failure)
    })

    return Authorization.of({
      apiKey: (handler, { credential, endpoint }) =>
        Effect.gen(function*() {
          if (Redacted.value(credential) === "") return yield* refuse()
          const key = yield* keys.check(credential).pipe(Effect.catchTag("Unauthorized", refuse))
          const rateClass = classOf(endpoint)
          if (key.suspended) {
            yield* tell((yield* limits.look(rateClass, key.integratorId)).headers)
            return yield* new IntegratorSuspended({ message: "The integrator is suspended" })
          }
          const admission = yield* limits.take(rateClass, key.integratorId)
          if (!admission.allowed) {
            yield* tell({ ...admission.headers, "retry-after": `${admission.retryAfterSeconds}` })
            return yield* tooMany(admission)
          }
          yield* tell(admission.headers)
          return yield* Effect.provideService(handler, CurrentIntegrator, { integratorId: key.integratorId }).pipe(
            within(rateClass)
          )
        })
    })
  })
)

const classOf = (endpoint: { readonly method: string; readonly path: string }): RateClass =>
  endpoint.method === "GET"
    ? "read"
    : endpoint.path === "/v1/spend-events"
    ? "ingest"
    : "manage"

const tooMany = ({ retryAfterSeconds }: Admission) =>
  new RateLimited({ message: `Too many requests; come again in ${retryAfterSeconds} s`, retryAfterSeconds })

/** Headers of the answer, whatever it will be. */
const tell = (headers: Readonly<Record<string, string>>) =>
  HttpEffect.appendPreResponseHandler((_, response) =>
    Effect.succeed(HttpServerResponse.setHeaders(response, headers))
  )
