import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import { Services } from "./Services.ts"

/** What happened, oldest first. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "events",
  Effect.fnUntraced(function*(handlers) {
    const { events } = yield* Services
    return handlers.handle("list", ({ query: { after = 0n, kind, limit = defaultPageSize } }) =>
      forIntegrator((id) => events.list(id, { after, kind, limit })))
  })
)
