import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { IntegratorMismatch, type SpendEventAccepted } from "@card-rewards/domain/SpendEvent"
import { Context, Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import { LargeAnswers } from "./LargeAnswers.ts"
import * as SpendEventDecoder from "./SpendEventDecoder.ts"
import type { Services } from "./Services.ts"

/** Card events in. The event's integrator must be the key's (contract, section 5.5). */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "spendEvents",
  Effect.fnUntraced(function*(handlers) {
    const answers = yield* LargeAnswers
    return handlers
      .handleRaw("submit", () => submit)
      .handle("waiting", ({ query: { cursor, limit = defaultPageSize } }) =>
        forIntegrator((id, { backlog }) =>
          Effect.flatMap(backlog.waiting(id, { cursor, limit }), (page) => answers.text(id, JSON.stringify(page)))))
      .handle("backlog", () => forIntegrator((id, { backlog }) => backlog.size(id)))
  })
)

/** Stores the event of the request, whose text the pipeline has read. */
export const submit = Effect.withFiber((fiber) => {
  const { text } = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
  return forIntegrator((id, { spendEvents }) =>
    Effect.orDie(text).pipe(
      Effect.flatMap(SpendEventDecoder.decode),
      Effect.flatMap((event): Effect.Effect<SpendEventAccepted, IntegratorMismatch | SubmitRefusal> =>
        event.integratorId === id ? spendEvents.submit(event) : Effect.fail(mismatch())),
      Effect.map(encodeAccepted)
    )
  )
})

type SubmitRefusal = Effect.Error<ReturnType<Services["spendEvents"]["submit"]>>

const mismatch = () =>
  new IntegratorMismatch({ message: "integratorId is not the integrator of this API key" })

const encodeAccepted = (accepted: SpendEventAccepted) => HttpServerResponse.jsonUnsafe(accepted, { status: 202 })
