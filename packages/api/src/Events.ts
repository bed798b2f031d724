import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import { LargeAnswers } from "./LargeAnswers.ts"

/** What happened, oldest first: the stored webhook bodies put together as text. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "events",
  Effect.fnUntraced(function*(handlers) {
    const answers = yield* LargeAnswers
    return handlers.handle("list", ({ query: { after = 0n, kind, limit = defaultPageSize } }) =>
      forIntegrator((id, { events }) =>
        Effect.flatMap(events.list(id, { after, kind, limit }), (page) =>
          answers.text(id, `{"events":[${page.events.join(",")}],"next":"${page.next}"}`))))
  })
)
