import type { Rewards } from "@card-rewards/core/Rewards"
import type { SpendEvents } from "@card-rewards/core/SpendEvents"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Context, Effect, type Exit } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { InWork } from "../Authorization/InWork.ts"
import { KeyChecks } from "../Authorization/KeyChecks.ts"
import { type Admission, type RateClass, RateLimit } from "../RateLimit.ts"
import type * as Body from "./Body.ts"
import * as Reads from "./ShortWay/Reads.ts"
import * as Submit from "./ShortWay/Submit.ts"

/** A request that may be answered in front of the router. */
export interface Way {
  readonly rateClass: RateClass
  readonly status: number
  /** What the answer's JSON says; else what the router shall go on with. */
  readonly answer: (integratorId: IntegratorId) => Effect.Effect<unknown, Begun>
}

/** What was done for a request that has no answer yet. */
export interface Begun {
  readonly body?: Exit.Exit<Uint8Array, Body.Unread>
  /** Why there is none, under the endpoint's name. */
  readonly refusal?: Partial<Refusals>
}

interface Refusals {
  readonly submit: RefusalOf<SpendEvents["Service"]["submit"]>
  readonly balance: RefusalOf<Rewards["Service"]["balance"]>
  readonly rewards: RefusalOf<Rewards["Service"]["list"]>
}

type RefusalOf<Ask extends (...args: never) => Effect.Effect<unknown, unknown>> = Effect.Error<ReturnType<Ask>>

/** What the short way has done of a request that it hands over to the router. */
interface Handed extends Begun {
  readonly integratorId: IntegratorId
  readonly admission: Admission
}

/** Present where the router goes on with what the short way has begun. */
export const Handed = Context.Reference<Handed | undefined>("@card-rewards/api/ShortWay/Handed", {
  defaultValue: () => undefined
})

/** What an endpoint's handler does, unless the short way has done it and met a refusal. */
export const unlessRefused = <Name extends keyof Refusals, A, R>(
  name: Name,
  act: Effect.Effect<A, Refusals[Name], R>
) =>
  Effect.flatMap(Handed, (handed): Effect.Effect<A, Refusals[Name], R> => {
    const refusal: Refusals[Name] | undefined = handed?.refusal?.[name]
    return refusal === undefined ? act : Effect.fail(refusal)
  })

/**
 * The short way of the requests that are nearly all of the traffic: a key that was checked a short while ago, a request
 * that is well-formed, nothing to refuse. It uses the same parts as the router's way, which any other request takes, and
 * which tells whatever is refused.
 */
export const around = Effect.fnUntraced(function*<E, R>(
  routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
) {
  const keys = yield* KeyChecks
  const limits = yield* RateLimit
  const inWork = yield* InWork
  const ways = { GET: yield* Reads.make, POST: yield* Submit.make }
  const wayOf = (request: HttpServerRequest.HttpServerRequest): Way | undefined =>
    request.method === "GET" || request.method === "POST" ? ways[request.method](request) : undefined

  const take = ({ answer, rateClass, status }: Way, integratorId: IntegratorId, admission: Admission) =>
    Effect.ensuring(
      Effect.matchEffect(answer(integratorId), {
        onSuccess: (body) =>
          Effect.succeed(HttpServerResponse.jsonUnsafe(body, { status, headers: admission.headers })),
        onFailure: (begun) => Effect.provideService(routes, Handed, { ...begun, integratorId, admission })
      }),
      Effect.sync(() => inWork.leave(rateClass))
    )

  return Effect.withFiber((
    fiber
  ): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest> => {
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    const apiKey = request.headers["x-api-key"]
    const way = apiKey === undefined ? undefined : wayOf(request)
    if (apiKey === undefined || way === undefined) return routes
    const now = fiber.getRef(Clock.Clock).currentTimeMillisUnsafe()
    const key = keys.fresh(apiKey, now)
    if (key === undefined || key.suspended || !inWork.enter(way.rateClass)) return routes
    const admission = limits.take(way.rateClass, key.integratorId, now)
    if (admission.allowed) return take(way, key.integratorId, admission)
    inWork.leave(way.rateClass)
    return routes
  })
})
