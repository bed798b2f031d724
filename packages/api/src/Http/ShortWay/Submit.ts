import { SpendEvents } from "@card-rewards/core/SpendEvents"
import type { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { Effect, Exit } from "effect"
import type { HttpServerRequest } from "effect/http"
import * as Body from "../Body.ts"
import * as QuickEvent from "../QuickEvent.ts"
import type { Begun, Way } from "../ShortWay.ts"

/** `POST /v1/spend-events` with a body that decodes, of an event that is stored or known. */
export const make = Effect.map(SpendEvents, ({ submit }) =>
(request: HttpServerRequest.HttpServerRequest): Way | undefined =>
  request.url !== "/v1/spend-events" || request.headers["content-type"] !== "application/json" ? undefined : {
    rateClass: "ingest",
    status: 202,
    answer: (integratorId) =>
      Effect.flatMap(Effect.exit(Body.read(request)), (body): Effect.Effect<unknown, Begun> => {
        const event = Exit.isSuccess(body) ? decode(body.value) : undefined
        if (event?.integratorId !== integratorId) return Effect.fail({ body })
        return Effect.mapError(submit(event), (refusal) => ({ body, refusal: { submit: refusal } }))
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
