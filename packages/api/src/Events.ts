import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { json } from "./ContentTypes.ts"
import { forIntegrator } from "./ForIntegrator.ts"

/** What happened, oldest first: the stored webhook bodies put together as text. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "events",
  (handlers) =>
    handlers.handle("list", ({ query: { after = 0n, kind, limit = defaultPageSize } }) =>
      forIntegrator((id, { events }) =>
        Effect.map(events.list(id, { after, kind, limit }), (page) =>
          HttpServerResponse.text(`{"events":[${page.events.join(",")}],"next":"${page.next}"}`, json))))
)
