import type { IntegratorId } from "@card-rewards/domain/Ids"
import { maxBatchEvents, spendEventErrors } from "@card-rewards/domain/SpendEventBatch"
import { Clock, Context, Effect, type Fiber, Result } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { forIntegrator } from "./ForIntegrator.ts"
import { type RateLimit, show, tooMany } from "./Pipeline/RateLimit.ts"
import * as Refusals from "./Pipeline/Refusals.ts"
import * as SpendEventDecoder from "./SpendEventDecoder.ts"

/** Until its events are counted a body is charged as one for each of these, so that a large body is never cheap. */
const bytesPerEvent = 4_096

/**
 * Stores the events of the request, whose text the pipeline has read. Against the rate limit it counts as its events,
 * of which the pipeline has counted one; where these are too many nothing is stored.
 */
export const submitBatch = (limits: RateLimit["Service"]) =>
  Effect.withFiber((fiber) =>
    forIntegrator(Effect.fnUntraced(function*(id, { spendEvents }) {
      const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
      const text = yield* Effect.orDie(request.text)
      const charge = charging(limits, id, fiber)
      yield* charge(Math.min(Math.ceil(text.length / bytesPerEvent), maxBatchEvents))
      const events = yield* SpendEventDecoder.decodeBatch(text)
      yield* charge(events.length)
      forgetText(request)
      const results = yield* Effect.forEach(events, (event) => Effect.result(SpendEventDecoder.decodeItem(event, id)))
      const valid = results.flatMap((decoded) => Result.isSuccess(decoded) ? [decoded.success] : [])
      const stored = yield* spendEvents.submitAll(valid)
      let next = 0
      const answers = results.map((decoded) => {
        const result = Result.isSuccess(decoded) ? stored[next++] : Result.fail(decoded.failure)
        return result && Result.match(result, { onSuccess: accepted, onFailure: refused })
      })
      return HttpServerResponse.jsonUnsafe({ results: answers })
    }))
  )

/** Takes tokens instead of those that the request has taken so far; fails with 429 where there are not enough. */
const charging = (limits: RateLimit["Service"], id: IntegratorId, request: Fiber.Fiber<unknown, unknown>) => {
  let taken = 1
  return Effect.fnUntraced(function*(wanted: number) {
    const admission = limits.retake("ingest", id, { taken, wanted }, yield* Clock.currentTimeMillis)
    taken = wanted
    show(admission, request)
    if (!admission.allowed) return yield* tooMany(admission)
  })
}

/** A request lives until its answer: with the text, requests that wait would have the memory of many more events. */
const forgetText = (request: HttpServerRequest.HttpServerRequest): void => {
  Object.defineProperty(request, "text", { value: Effect.succeed("") })
}

const accepted = ({ duplicate, id }: { readonly id: string; readonly duplicate: boolean }) =>
  ({ status: 202, id, duplicate })

const encode = Refusals.encoding(spendEventErrors)

const refused = (error: (typeof spendEventErrors)[number]["Type"]) => {
  const { body, status } = encode(error) ?? {}
  return { status, error: body }
}
