import { HttpApi } from "effect/http-api"
import { ApiKeys } from "./ApiKeys.ts"
import { Events } from "./Events.ts"
import { Health } from "./Health.ts"
import { Programs } from "./Programs.ts"
import { Sandbox } from "./Sandbox.ts"
import { SpendEvents } from "./SpendEvents.ts"
import { Users } from "./Users.ts"
import { WebhookEndpoints } from "./WebhookEndpoints.ts"

/**
 * The api as production serves it, without what its description alone needs: that is most of the text, and a client has
 * no use for it. Request bodies take no extra properties (contract, section 2).
 */
export class BareIntegratorApi extends HttpApi.make("card-rewards")
  .add(Health, SpendEvents, Users, Programs, ApiKeys, WebhookEndpoints, Events)
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error", errors: "all" })
{}

/** The api as the sandbox serves it: production's, and the simulations. */
export class BareSandboxApi extends BareIntegratorApi.add(Sandbox) {}
