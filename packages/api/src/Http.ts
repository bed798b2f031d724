import * as Metrics from "@card-rewards/core/Metrics"
import { IntegratorApi, SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import type { VaultId } from "@card-rewards/domain/Ids"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as ApiKeys from "./ApiKeys.ts"
import * as Authorization from "./Authorization.ts"
import { InWork } from "./Authorization/InWork.ts"
import { KeyChecks } from "./Authorization/KeyChecks.ts"
import * as Events from "./Events.ts"
import * as Health from "./Health.ts"
import * as Border from "./Http/Border.ts"
import * as Console from "./Http/Console.ts"
import * as Docs from "./Http/Docs.ts"
import * as RequestShape from "./Http/RequestShape.ts"
import * as ShortWay from "./Http/ShortWay.ts"
import * as Telemetry from "./Http/Telemetry.ts"
import * as Programs from "./Programs.ts"
import * as Sandbox from "./Sandbox.ts"
import * as SpendEvents from "./SpendEvents.ts"
import * as Users from "./Users.ts"
import * as WebhookEndpoints from "./WebhookEndpoints.ts"

/**
 * The whole interface as one effect that answers a request; the scope is the process's. Serve it only once it is built, since a
 * server that listens before leaves early requests hanging.
 */
export const make = Effect.fnUntraced(function*(environment: VaultId) {
  const admission = yield* Layer.build(Layer.merge(KeyChecks.layer, InWork.layer))
  return yield* Effect.gen(function*() {
    const routes = yield* HttpRouter.toHttpEffect(environment === "production" ? production : sandbox)
    // telemetry tells requests apart by what the router finds
    const answers = (yield* Metrics.On) ? routes : yield* ShortWay.around(routes)
    return yield* Telemetry.around(answers, Border.around)
  }).pipe(Effect.provideContext(admission), Effect.provideService(HttpRouter.RouterConfig, routerConfig))
})

/** Paths are taken literally. Length is limited by Node's limit on headers, and then by each id's own. */
const routerConfig = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  maxParamLength: 16_384
}

const middlewares = Layer.mergeAll(
  Authorization.layer,
  RequestShape.layer
)

const groups = Layer.mergeAll(
  Health.layer,
  SpendEvents.layer,
  Users.layer,
  Programs.layer,
  ApiKeys.layer,
  WebhookEndpoints.layer,
  Events.layer
).pipe(Layer.provide(middlewares))

const openapiPath = "/openapi.json"

const production = Layer.mergeAll(
  HttpApiBuilder.layer(IntegratorApi, { openapiPath }),
  Docs.layer(IntegratorApi),
  Console.layer()
).pipe(
  Layer.provide([groups, NodeHttpServer.layerHttpServices])
)

const sandbox = Layer.mergeAll(
  HttpApiBuilder.layer(SandboxApi, { openapiPath }),
  Docs.layer(SandboxApi),
  Console.layer()
).pipe(
  Layer.provide([groups, Sandbox.layer.pipe(Layer.provide(middlewares)), NodeHttpServer.layerHttpServices])
)
