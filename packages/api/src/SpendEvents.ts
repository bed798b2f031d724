import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import type { SpendEventAccepted } from "@card-rewards/domain/SpendEvent"
import { Context, Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import { RateLimit } from "./Pipeline/RateLimit.ts"
import { submitBatch } from "./SpendEventBatches.ts"
import * as SpendEventDecoder from "./SpendEventDecoder.ts"

/** Card events in. The event's integrator must be the key's (contract, section 5.5). */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "spendEvents",
  Effect.fnUntraced(function*(handlers) {
    const limits = yield* RateLimit
    return handlers
      .handleRaw("submit", () => submit)
      .handleRaw("submitBatch", () => submitBatch(limits))
      .handle("waiting", ({ query: { cursor, limit = defaultPageSize } }) =>
        forIntegrator((id, { backlog }) =>
          Effect.map(backlog.waiting(id, { cursor, limit }), (page) => HttpServerResponse.jsonUnsafe(page))))
      .handle("backlog", () => forIntegrator((id, { backlog }) => backlog.size(id)))
  })
)

/** Stores the event of the request, whose text the pipeline has read. */
export const submit = Effect.withFiber((fiber) => {
  const { text } = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
  return forIntegrator((id, { spendEvents }) =>
    Effect.orDie(text).pipe(
      Effect.flatMap((text) => SpendEventDecoder.decode(text, id)),
      Effect.flatMap(spendEvents.submit),
      Effect.map(encodeAccepted)
    )
  )
})

const encodeAccepted = (accepted: SpendEventAccepted) => HttpServerResponse.jsonUnsafe(accepted, { status: 202 })
