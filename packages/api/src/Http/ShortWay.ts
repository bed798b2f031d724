import { SpendEvents } from "@card-rewards/core/SpendEvents"
import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { EventInFuture, SpendEvent, SpendEventConflict } from "@card-rewards/domain/SpendEvent"
import type { UserNotEnrolled } from "@card-rewards/domain/User"
import { Clock, Context, Effect, Exit } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { InWork } from "../Authorization/InWork.ts"
import { KeyChecks } from "../Authorization/KeyChecks.ts"
import { type Admission, RateLimit } from "../RateLimit.ts"
import * as Body from "./Body.ts"
import * as QuickEvent from "./QuickEvent.ts"

/** What the short way has done of a request that it hands over to the router. */
interface Handed {
  readonly integratorId: IntegratorId
  readonly admission: Admission
  readonly body: Exit.Exit<Uint8Array, Body.Unread>
  /** Why the event was not stored. */
  readonly refusal?: SpendEventConflict | EventInFuture | UserNotEnrolled | Unavailable
}

/** Present where the router goes on with what the short way has begun. */
export const Handed = Context.Reference<Handed | undefined>("@card-rewards/api/ShortWay/Handed", {
  defaultValue: () => undefined
})

/**
 * The short way of `POST /v1/spend-events`, which is nearly all of the traffic: a key that was checked a short while ago, a
 * body that decodes, an event that is stored or known. It uses the same parts as the router's way, which any other request
 * takes, and which tells whatever is refused.
 */
export const around = Effect.fnUntraced(function*<E, R>(routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) {
  const keys = yield* KeyChecks
  const limits = yield* RateLimit
  const inWork = yield* InWork
  const { submit } = yield* SpendEvents
  const leave = Effect.sync(() => inWork.leave("ingest"))

  const store = (request: HttpServerRequest.HttpServerRequest, integratorId: IntegratorId, admission: Admission) =>
    Effect.flatMap(Effect.exit(Body.read(request)), (body) => {
      const event = Exit.isSuccess(body) ? decode(body.value) : undefined
      const handed = { integratorId, admission, body }
      if (event?.integratorId !== integratorId) return Effect.provideService(routes, Handed, handed)
      return Effect.matchEffect(submit(event), {
        onSuccess: (accepted) => Effect.succeed(accept(JSON.stringify(accepted), admission)),
        onFailure: (refusal) => Effect.provideService(routes, Handed, { ...handed, refusal })
      })
    })

  return Effect.withFiber<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest>((fiber) => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    if (request.url !== "/v1/spend-events" || request.method !== "POST") return routes
    const { "content-type": contentType, "x-api-key": apiKey } = request.headers
    if (apiKey === undefined || contentType !== "application/json") return routes
    const now = fiber.getRef(Clock.Clock).currentTimeMillisUnsafe()
    const key = keys.fresh(apiKey, now)
    if (key === undefined || key.suspended || !inWork.enter("ingest")) return routes
    const admission = limits.take("ingest", key.integratorId, now)
    if (admission.allowed) return Effect.ensuring(store(request, key.integratorId, admission), leave)
    inWork.leave("ingest")
    return routes
  })
})

const decode = (bytes: Uint8Array): SpendEvent | undefined => {
  const text = Body.textOf(bytes)
  if (typeof text !== "string") return undefined
  try {
    return QuickEvent.decode(JSON.parse(text))
  } catch {
    return undefined
  }
}

const accept = (json: string, { headers }: Admission) =>
  HttpServerResponse.text(json, { status: 202, contentType: "application/json", headers })
