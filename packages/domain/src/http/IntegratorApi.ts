import { HttpApi, OpenApi } from "effect/http-api"
import { WebhookEvent } from "../Event.ts"
import { BareIntegratorApi } from "./BareApi.ts"
import * as Description from "./OpenApi.ts"
import { Sandbox } from "./Sandbox.ts"

/** The api as production serves it, with its description. */
export class IntegratorApi extends BareIntegratorApi
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
