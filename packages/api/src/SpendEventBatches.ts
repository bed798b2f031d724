import type { IntegratorId } from "@card-rewards/domain/Ids"
import { spendEventErrors } from "@card-rewards/domain/SpendEventBatch"
import type { SpendEventAccepted } from "@card-rewards/domain/SpendEvent"
import { Clock, Context, Effect, type Fiber, Result } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { forIntegrator } from "./ForIntegrator.ts"
import { type RateLimit, show, tokensOfBody, tooMany } from "./Pipeline/RateLimit.ts"
import * as Refusals from "./Pipeline/Refusals.ts"
import { announcedBytes } from "./Pipeline/RequestBodies.ts"
import * as SpendEventDecoder from "./SpendEventDecoder.ts"

/**
 * Stores the events of the request, whose text the pipeline has read. Against the rate limit it counts as its events,
 * instead of by its bytes as in the pipeline; where these are too many nothing is stored.
 */
export const submitBatch = (limits: RateLimit["Service"]) =>
  Effect.withFiber((fiber) =>
    forIntegrator(Effect.fnUntraced(function*(id, { spendEvents }) {
      const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
      const text = yield* Effect.orDie(request.text)
      const bytes = announcedBytes(request)
      const charge = charging(limits, id, fiber, tokensOfBody(bytes))
      if (bytes === 0) yield* charge(tokensOfBody(text.length))
      const events = yield* SpendEventDecoder.decodeBatch(text)
      yield* charge(events.length)
      // an answer takes less memory than the error, while others' requests have their turn
      const decoded = yield* SpendEventDecoder.decodeItems(events, id, refused)
      const stored = yield* spendEvents.submitAll(decoded.flatMap((one) => Result.isSuccess(one) ? [one.success] : []))
      const answers = stored.map(answered).values()
      const results = decoded.map((one) => Result.isSuccess(one) ? answers.next().value : one.failure)
      return HttpServerResponse.jsonUnsafe({ results })
    }))
  )

/** Takes tokens instead of those that the request has taken so far; fails with 429 where there are not enough. */
const charging = (
  limits: RateLimit["Service"],
  id: IntegratorId,
  request: Fiber.Fiber<unknown, unknown>,
  takenBefore: number
) => {
  let taken = takenBefore
  return Effect.fnUntraced(function*(wanted: number) {
    const admission = limits.retake("ingest", id, { taken, wanted }, yield* Clock.currentTimeMillis)
    taken = wanted
    show(admission, request)
    if (!admission.allowed) return yield* tooMany(admission)
  })
}

const encode = Refusals.encoding(spendEventErrors)

const refused = (error: (typeof spendEventErrors)[number]["Type"]) => {
  const { body, status } = encode(error) ?? {}
  return { status, error: body }
}

const answered = Result.match({
  onSuccess: ({ duplicate, id }: SpendEventAccepted) => ({ status: 202, id, duplicate }),
  onFailure: refused
})
