import { IntegratorApi, SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import type { VaultId } from "@card-rewards/domain/Ids"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as ApiKeys from "./ApiKeys.ts"
import * as Events from "./Events.ts"
import * as Health from "./Health.ts"
import * as Console from "./Http/Console.ts"
import * as DirectRoutes from "./Http/DirectRoutes.ts"
import * as Docs from "./Http/Docs.ts"
import * as ErrorResponses from "./Http/ErrorResponses.ts"
import * as Paths from "./Http/Paths.ts"
import * as Telemetry from "./Http/Telemetry.ts"
import * as Journal from "./Journal.ts"
import { Pipeline } from "./Pipeline.ts"
import { KeyChecks } from "./Pipeline/KeyChecks.ts"
import { type Limits, RateLimit } from "./Pipeline/RateLimit.ts"
import * as Programs from "./Programs.ts"
import * as Sandbox from "./Sandbox.ts"
import * as SpendEvents from "./SpendEvents.ts"
import * as Statements from "./Statements.ts"
import * as Users from "./Users.ts"
import * as Vault from "./Vault.ts"
import * as WebhookEndpoints from "./WebhookEndpoints.ts"

/**
 * The whole interface over the cells, as one effect that answers a request; the scope is the process's. Serve it only
 * once it is built: a server that listens before leaves early requests without an answer. `integratorOf` names the
 * integrator of a key that was looked up before.
 */
export const make = Effect.fnUntraced(function*(options: { readonly environment: VaultId; readonly limits: Limits }) {
  const { environment, limits } = options
  const context = yield* Layer.build(Pipeline.middleware.pipe(
    Layer.provideMerge(Pipeline.layer),
    Layer.provideMerge(KeyChecks.layer),
    Layer.provideMerge(RateLimit.layer(limits))
  ))
  const routes = yield* HttpRouter.toHttpEffect(environment === "production" ? production : sandbox).pipe(
    Effect.provideContext(context),
    Effect.provideService(HttpRouter.RouterConfig, routerConfig)
  )
  const all = yield* DirectRoutes.before(routes).pipe(Effect.provideContext(context))
  return {
    answer: yield* Telemetry.around(ErrorResponses.around(Paths.around(all))),
    integratorOf: Context.get(context, KeyChecks).integratorOf
  }
})

/** Paths are taken literally. Length is limited by Node's limit on headers, and then by each id's own. */
const routerConfig = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  maxParamLength: 16_384
}

const groups = Layer.mergeAll(
  Health.layer,
  SpendEvents.layer,
  Users.layer,
  Programs.layer,
  Vault.layer,
  Statements.layer,
  Journal.layer,
  ApiKeys.layer,
  WebhookEndpoints.layer,
  Events.layer
)

const production = Layer.mergeAll(
  HttpApiBuilder.layer(IntegratorApi),
  Docs.layer(IntegratorApi),
  Console.layer()
).pipe(
  Layer.provide([groups, NodeHttpServer.layerHttpServices])
)

const sandbox = Layer.mergeAll(
  HttpApiBuilder.layer(SandboxApi),
  Docs.layer(SandboxApi),
  Console.layer()
).pipe(
  Layer.provide([groups, Sandbox.layer, NodeHttpServer.layerHttpServices])
)
