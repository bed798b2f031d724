import { Backlog } from "@card-rewards/core/Backlog"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { CurrentIntegrator } from "@card-rewards/domain/http/Authorization"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { IntegratorMismatch } from "@card-rewards/domain/SpendEvent"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import * as ShortWay from "./Http/ShortWay.ts"

/** Card events in. The event's integrator must be the key's (contract, section 5.5). */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "spendEvents",
  Effect.fnUntraced(function*(handlers) {
    const spendEvents = yield* SpendEvents
    const backlog = yield* Backlog
    return handlers.handle(
      "submit",
      Effect.fnUntraced(function*({ payload }) {
        const { integratorId } = yield* CurrentIntegrator
        if (payload.integratorId !== integratorId) {
          return yield* new IntegratorMismatch({ message: "integratorId is not the integrator of this API key" })
        }
        return yield* ShortWay.unlessRefused("submit", spendEvents.submit(payload))
      })
    )
      .handle("waiting", ({ query: { cursor, limit = defaultPageSize } }) =>
        forIntegrator((id) => backlog.waiting(id, { cursor, limit })))
      .handle("backlog", () => forIntegrator(backlog.size))
  })
)
