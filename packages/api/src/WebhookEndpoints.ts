import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import { LargeAnswers } from "./LargeAnswers.ts"
import { Services } from "./Services.ts"

/** Where events go. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "webhookEndpoints",
  Effect.fnUntraced(function*(handlers) {
    const { deliveryLog: log, webhookEndpoints: endpoints } = yield* Services
    const answers = yield* LargeAnswers
    return handlers
      .handle("list", () => forIntegrator((id) => Effect.map(endpoints.list(id), (all) => ({ endpoints: all }))))
      .handle("create", ({ payload }) => forIntegrator((id) => endpoints.create(id, payload)))
      .handle("get", ({ params }) => forIntegrator((id) => Effect.map(endpoints.get(id, params.id), inBody)))
      .handle("update", ({ params, payload }) =>
        forIntegrator((id) => Effect.map(endpoints.update(id, params.id, payload.url), inBody)))
      .handle("remove", ({ params }) => forIntegrator((id) => Effect.map(endpoints.remove(id, params.id), inBody)))
      .handle("rotateSecret", ({ params }) => forIntegrator((id) => endpoints.rotateSecret(id, params.id)))
      .handle("deliveries", ({ params, query: { cursor, limit = defaultPageSize, state } }) =>
        forIntegrator((id) =>
          Effect.flatMap(log.list(id, params.id, { cursor, limit, state }), (page) =>
            answers.text(id, JSON.stringify(page)))))
      .handle("redeliver", ({ params }) =>
        forIntegrator((id) => Effect.map(log.redeliver(id, params.id, params.eventId), (delivery) => ({ delivery }))))
      .handle("startReplay", ({ params, payload }) =>
        forIntegrator((id) => Effect.map(log.startReplay(id, params.id, payload), (replay) => ({ replay }))))
      .handle("getReplay", ({ params }) =>
        forIntegrator((id) => Effect.map(log.findReplay(id, params.id, params.replayId), (replay) => ({ replay }))))
      .handle("ping", ({ params }) =>
        forIntegrator((id) => Effect.map(log.ping(id, params.id), (eventId) => ({ eventId }))))
  })
)

const inBody = <A>(endpoint: A) => ({ endpoint })
