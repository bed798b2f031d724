import { HttpApi, OpenApi } from "effect/http-api"
import { WebhookEvent } from "../Event.ts"
import { BareIntegratorApi } from "./BareApi.ts"
import * as Description from "./OpenApi.ts"
import { Sandbox } from "./Sandbox.ts"

/** The production API with its OpenAPI description. */
export class IntegratorApi extends BareIntegratorApi
  .annotate(OpenApi.Title, "Card Rewards Integrator API")
  .annotate(OpenApi.Version, "0.0.0")
  .annotate(OpenApi.Summary, "Card rewards for integrators, over HTTP and JSON")
  .annotate(OpenApi.Description, Description.introduction)
  .annotate(OpenApi.Servers, [{ url: "/", description: "The host that serves this description" }])
  .annotate(HttpApi.AdditionalSchemas, WebhookEvent.members)
  .annotate(OpenApi.Transform, Description.complete)
{}

/** The sandbox API with its OpenAPI description: that of production, the simulated vault and the movable clock. */
export class SandboxApi extends IntegratorApi.add(Sandbox) {}
