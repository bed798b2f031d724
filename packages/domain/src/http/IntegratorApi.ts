import { HttpApi, OpenApi } from "effect/http-api"
import { WebhookEvent } from "../Event.ts"
import { ApiKeys } from "./ApiKeys.ts"
import { Events } from "./Events.ts"
import { Health } from "./Health.ts"
import * as Description from "./OpenApi.ts"
import { Programs } from "./Programs.ts"
import { Sandbox } from "./Sandbox.ts"
import { SpendEvents } from "./SpendEvents.ts"
import { Users } from "./Users.ts"
import { WebhookEndpoints } from "./WebhookEndpoints.ts"

/** The api as production serves it. Request bodies take no extra properties (contract, section 2). */
export class IntegratorApi extends HttpApi.make("card-rewards")
  .add(Health, SpendEvents, Users, Programs, ApiKeys, WebhookEndpoints, Events)
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotate(OpenApi.Title, "Card Rewards Integrator API")
  .annotate(OpenApi.Version, "0.0.0")
  .annotate(OpenApi.Summary, "Card rewards for integrators, over HTTP and JSON")
  .annotate(OpenApi.Description, Description.introduction)
  .annotate(OpenApi.Servers, [{ url: "/", description: "The host that serves this description" }])
  .annotate(HttpApi.AdditionalSchemas, WebhookEvent.members)
  .annotate(OpenApi.Transform, Description.complete)
{}

/** The api as the sandbox serves it: production's, and the simulations. */
export class SandboxApi extends IntegratorApi.add(Sandbox) {}
