import { IntegratorSuspended, RateLimited } from "@card-rewards/domain/Errors"
import { Authorization, CurrentIntegrator } from "@card-rewards/domain/http/Authorization"
import { Clock, Effect, Layer, Option, Redacted } from "effect"
import { HttpEffect, HttpServerRequest, HttpServerResponse } from "effect/http"
import { InWork, within } from "./Authorization/InWork.ts"
import { KeyChecks, unauthorized } from "./Authorization/KeyChecks.ts"
import * as ShortWay from "./Http/ShortWay.ts"
import { type Admission, type RateClass, RateLimit } from "./RateLimit.ts"

/**
 * Who asks, and may they? In this order: 401, 403 for a suspended integrator, 429, 503 for too much at once; all before the
 * request is decoded (decisions, section 2). Every authenticated answer tells the rate limit.
 */
export const layer: Layer.Layer<Authorization, never, KeyChecks | InWork | RateLimit> = Layer.effect(
  Authorization,
  Effect.gen(function*() {
    const keys = yield* KeyChecks
    const limits = yield* RateLimit
    const inWork = yield* InWork

    const refuse = Effect.fnUntraced(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      const address = Option.getOrElse(request.remoteAddress, () => "")
      const failure = limits.takeFailure(address, yield* Clock.currentTimeMillis)
      if (!failure.allowed) yield* tell({ "retry-after": `${failure.retryAfterSeconds}` })
      return yield* failure.allowed ? unauthorized() : tooMany(failure)
    })

    const authorize = Effect.fnUntraced(function*(apiKey: Redacted.Redacted, rateClass: RateClass) {
      if (Redacted.value(apiKey) === "") return yield* refuse()
      const key = yield* keys.check(apiKey).pipe(Effect.catchTag("Unauthorized", refuse))
      const now = yield* Clock.currentTimeMillis
      if (key.suspended) {
        yield* tell(limits.look(rateClass, key.integratorId, now).headers)
        return yield* new IntegratorSuspended({ message: "The integrator is suspended" })
      }
      const admission = limits.take(rateClass, key.integratorId, now)
      if (!admission.allowed) {
        yield* tell({ ...admission.headers, "retry-after": `${admission.retryAfterSeconds}` })
        return yield* tooMany(admission)
      }
      return { integratorId: key.integratorId, admission }
    })

    return Authorization.of({
      apiKey: (handler, { credential, endpoint }) =>
        Effect.gen(function*() {
          const rateClass = classOf(endpoint)
          const handed = yield* ShortWay.Handed
          const { admission, integratorId } = handed ?? (yield* authorize(credential, rateClass))
          yield* tell(admission.headers)
          const answer = Effect.provideService(handler, CurrentIntegrator, { integratorId })
          return yield* handed === undefined ? within(inWork, rateClass)(answer) : answer
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
