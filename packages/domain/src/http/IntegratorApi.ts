import { HttpApi, OpenApi } from "effect/http-api"
import { WebhookEvent } from "../Event.ts"
import { BareIntegratorApi } from "./BareApi.ts"
import * as Description from "./OpenApi.ts"
import { Programs } from "./Programs.ts"
import { Sandbox } from "./Sandbox.ts"

/**
 * The server lists what a definition does not know with its other problems. A client, which encodes by the same API
 * without this, fails instead of leaving it out.
 */
const programs = Programs.annotateEndpoints(HttpApi.PayloadParseOptions, { onExcessProperty: "ignore" })

/** The production API with its OpenAPI description. */
export class IntegratorApi extends BareIntegratorApi.add(programs)
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
