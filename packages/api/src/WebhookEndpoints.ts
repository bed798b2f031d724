import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { defaultPageSize } from "@card-rewards/domain/Pagination"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import type { Services } from "./Services.ts"

/** Where events go. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "webhookEndpoints",
  (handlers) =>
    handlers
      .handle("list", () => withEndpoints((id, all) => Effect.map(all.list(id), (endpoints) => ({ endpoints }))))
      .handle("create", ({ payload }) => withEndpoints((id, all) => all.create(id, payload)))
      .handle("get", ({ params }) => withEndpoints((id, all) => Effect.map(all.get(id, params.id), inBody)))
      .handle("update", ({ params, payload }) =>
        withEndpoints((id, all) => Effect.map(all.update(id, params.id, payload.url), inBody)))
      .handle("remove", ({ params }) => withEndpoints((id, all) => Effect.map(all.remove(id, params.id), inBody)))
      .handle("rotateSecret", ({ params }) => withEndpoints((id, all) => all.rotateSecret(id, params.id)))
      .handle("deliveries", ({ params, query: { cursor, limit = defaultPageSize, state } }) =>
        withLog((id, log) =>
          Effect.map(log.list(id, params.id, { cursor, limit, state }), (page) =>
            HttpServerResponse.jsonUnsafe(page))))
      .handle("redeliver", ({ params }) =>
        withLog((id, log) => Effect.map(log.redeliver(id, params.id, params.eventId), (delivery) => ({ delivery }))))
      .handle("startReplay", ({ params, payload }) =>
        withLog((id, log) => Effect.map(log.startReplay(id, params.id, payload), (replay) => ({ replay }))))
      .handle("getReplay", ({ params }) =>
        withLog((id, log) => Effect.map(log.findReplay(id, params.id, params.replayId), (replay) => ({ replay }))))
      .handle("ping", ({ params }) =>
        withLog((id, log) => Effect.map(log.ping(id, params.id), (eventId) => ({ eventId }))))
)

const withEndpoints = <A, E, R>(
  act: (id: IntegratorId, endpoints: Services["webhookEndpoints"]) => Effect.Effect<A, E, R>
) => forIntegrator((id, { webhookEndpoints }) => act(id, webhookEndpoints))

const withLog = <A, E, R>(act: (id: IntegratorId, log: Services["deliveryLog"]) => Effect.Effect<A, E, R>) =>
  forIntegrator((id, { deliveryLog }) => act(id, deliveryLog))

const inBody = <A>(endpoint: A) => ({ endpoint })
