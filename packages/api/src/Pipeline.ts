import type { FoundKey } from "@card-rewards/core/ApiKeys"
import { notOwned } from "@card-rewards/core/Slots"
import { InvalidRequest, type Unavailable } from "@card-rewards/domain/Errors"
import { CurrentIntegrator, RequestPipeline } from "@card-rewards/domain/http/RequestPipeline"
import { Clock, Context, Effect, type Fiber, Layer, Option, Schema } from "effect"
import { HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import { Cells } from "./Cells.ts"
import { AdmittedIntegrator } from "./ForIntegrator.ts"
import { LargeAnswers } from "./LargeAnswers.ts"
import { clientOf } from "./Pipeline/ClientAddress.ts"
import { ConcurrencyLimit } from "./Pipeline/ConcurrencyLimit.ts"
import { HandlerSlots } from "./Pipeline/HandlerSlots.ts"
import { KeyChecks } from "./Pipeline/KeyChecks.ts"
import { OutageLog } from "./Pipeline/OutageLog.ts"
import * as Problems from "./Pipeline/Problems.ts"
import { type RateClass, RateLimit, show, tokensOfBody, tooMany } from "./Pipeline/RateLimit.ts"
import { noteCell } from "./Pipeline/RequestCell.ts"
import * as Refusals from "./Pipeline/Refusals.ts"
import { announcedBytes, maxBatchBytes, maxBytes, RequestBodies } from "./Pipeline/RequestBodies.ts"

type Response = HttpServerResponse.HttpServerResponse

/** Returns the answer, or fails with one of the errors that the endpoint declares. */
type Handler<R = never> = Effect.Effect<Response, object, R>

/**
 * The steps between route and handler of every endpoint but `/health`, in order, with and without telemetry: key (401),
 * suspension (403), rate limit (429), body (400), requests in flight (503). It answers every error that the endpoint
 * declares. Whatever the answer is, it shows the rate limit of an authenticated request (decisions, sections 2 and 8).
 */
export class Pipeline extends Context.Service<
  Pipeline,
  (
    handler: Handler<CurrentIntegrator>,
    endpoint: HttpApiEndpoint.Top
  ) => Effect.Effect<Response>
>()("@card-rewards/api/Pipeline") {
  static readonly layer: Layer.Layer<Pipeline, never, Cells | KeyChecks | RateLimit> = Layer.effect(
    Pipeline,
    Effect.suspend(() => make)
  ).pipe(Layer.provide(RequestBodies.layer))

  /** The pipeline as the middleware that the HttpApi definition names. */
  static readonly middleware: Layer.Layer<RequestPipeline, never, Pipeline> = Layer.effect(
    RequestPipeline,
    Effect.map(Pipeline, (pipeline) => (handler, { endpoint }) => pipeline(handler, endpoint))
  )
}

const make = Effect.gen(function*() {
  const keys = yield* KeyChecks
  const cells = yield* Cells
  const limits = yield* RateLimit
  const bodies = yield* RequestBodies
  const concurrency = new ConcurrencyLimit()
  const slots = yield* HandlerSlots.make({ all: Infinity, ofOne: maxOfOne })
  const large = new LargeAnswers()
  const outages = new OutageLog()

  return Pipeline.of((handler, endpoint) => {
    const { isBatch, isJoined, maxBodyBytes, mayLock, rateClass } = traitsOf(endpoint)
    const hasBody = endpoint.payload.size > 0
    const isRead = endpoint.method === "GET"
    const decodePath = pathDecoder(endpoint)
    const refuse = Refusals.answering(endpoint, outages)
    const handle = Effect.catchIf(handler, HttpApiError.HttpApiSchemaError.is, Problems.refusing(endpoint))

    const read = (request: HttpServerRequest.HttpServerRequest, { integratorId }: FoundKey, clock: Clock.Clock) =>
      Effect.matchEffect(bodies.read(request, integratorId, { clock, maxBytes: maxBodyBytes }), {
        onFailure: (error): Effect.Effect<never, InvalidRequest | Unavailable> =>
          error._tag === "InvalidRequest" ? Effect.andThen(decodePath, Effect.fail(error)) : Effect.fail(error),
        onSuccess: (text) => Effect.succeed(keepText(request, text))
      })

    const enter = ({ integratorId, slot }: FoundKey, fiber: Fiber.Fiber<unknown, unknown>) => {
      const services = cells.of(slot)
      if (services === undefined) return Effect.fail(notOwned())
      const { cell, lockingSlots } = services
      if (!concurrency.enter(rateClass, { integratorId, cell }, fiber)) return Refusals.busy
      const provided = Effect.provideService(handle, CurrentIntegrator, new AdmittedIntegrator(integratorId, services))
      const handling = cell === undefined ? provided : Effect.annotateLogs(provided, "cell", cell)
      noteCell(fiber, cell)
      if (isJoined) return handling
      return (mayLock ? lockingSlots : slots).run(integratorId, handling)
    }

    const answered = Effect.withFiber((fiber): Handler => {
      const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
      const clock = fiber.getRef(Clock.Clock)
      const now = clock.currentTimeMillisUnsafe()

      const admit = (key: FoundKey): Handler => {
        const tokens = isBatch ? tokensOfBody(announcedBytes(request)) : 1
        const consult = key.suspended ? limits.peek : limits.take
        const admission = consult(rateClass, key.integratorId, now, tokens)
        show(admission, fiber)
        if (isRead) HttpEffect.appendPreResponseHandlerUnsafe(fiber.context, keepFromCaches)
        if (key.suspended) return Refusals.suspended
        if (!admission.allowed) return Effect.fail(tooMany(admission))
        const handled = hasBody
          ? Effect.flatMap(read(request, key, clock), () => enter(key, fiber))
          : enter(key, fiber)
        const count = (answer: Response) => large.count(key.integratorId, answer)
        return Effect.matchEffect(handled, {
          onFailure: (error) => Effect.flatMap(refuse(error), count),
          onSuccess: count
        })
      }
      const key = authenticate(keys, request, clock)
      return Effect.isEffect(key) ? Effect.flatMap(key, admit) : admit(key)
    })
    return Effect.catch(answered, refuse)
  })
})

/** Handlers of one integrator that run at the same time and lock nothing, at most. */
const maxOfOne = 4

const authenticate = (
  keys: KeyChecks["Service"],
  request: HttpServerRequest.HttpServerRequest,
  clock: Clock.Clock
) => {
  const apiKey = request.headers["x-api-key"] ?? ""
  return keys.fresh(apiKey, clock) ?? keys.check(apiKey, clientOf(Option.getOrElse(request.remoteAddress, () => "")))
}

/** What the pipeline needs to know of an endpoint. */
interface Traits {
  readonly rateClass: RateClass
  readonly maxBodyBytes: number
  /** Whether it takes tokens by its events, and until these are counted by its bytes. */
  readonly isBatch: boolean
  /** Whether core joins its requests into batches, so that they need no handler slots. */
  readonly isJoined: boolean
  /** Whether it may hold a connection for long, such as while it waits for locks of the integrator's other requests. */
  readonly mayLock: boolean
}

/** The endpoints that differ from the others of their method. */
const different: Readonly<Record<string, Partial<Traits>>> = {
  "POST /v1/spend-events": { rateClass: "ingest", isJoined: true },
  "POST /v1/spend-events/batch": { rateClass: "ingest", isBatch: true, isJoined: true, maxBodyBytes: maxBatchBytes },
  "GET /v1/users/:userId/balance": { isJoined: true },
  // it reads all refunds of a purchase, of which there may be any number
  "GET /v1/users/:userId/rewards/:rewardId/explanation": { mayLock: true },
  // it may end the vault's day
  "GET /v1/statements/:asset": { mayLock: true },
  // these write nothing
  "POST /v1/programs/:programId/simulations": { mayLock: false },
  "POST /v1/users/:userId/quotes": { rateClass: "read", mayLock: false }
}

const traitsOf = ({ method, path }: HttpApiEndpoint.Top): Traits => ({
  rateClass: method === "GET" ? "read" : "manage",
  maxBodyBytes: maxBytes,
  isBatch: false,
  isJoined: false,
  mayLock: method !== "GET",
  ...different[`${method} ${path}`]
})

/** A cache would keep one integrator's answer for the others: it knows requests by their URL, not by their key. */
const keepFromCaches = (_: unknown, response: Response) =>
  Effect.succeed(HttpServerResponse.setHeader(response, "cache-control", "no-store"))

/** Where path and body are both invalid the answer names the path. */
const pathDecoder = ({ params }: HttpApiEndpoint.Top): Effect.Effect<void, InvalidRequest> => {
  if (params === undefined) return Effect.void
  // the ids in paths are plain schemas: they need no services
  const decode = Schema.decodeUnknownEffect(params) as (input: unknown) => Effect.Effect<unknown, Schema.SchemaError>
  return Effect.withFiber(({ context }) => decode(Context.getUnsafe(context, HttpRouter.RouteContext).params)).pipe(
    Effect.mapError(({ issue }) => new InvalidRequest({ part: "path", message: Problems.describe("", issue) })),
    Effect.asVoid
  )
}

/** Lets the decoder and the handler take the text that the pipeline has read and checked. */
const keepText = (request: HttpServerRequest.HttpServerRequest, text: string): void => {
  Object.defineProperty(request, "text", { value: Effect.succeed(text) })
}
