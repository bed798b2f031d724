import { HttpApi } from "effect/http-api"
import { ApiKeys } from "./ApiKeys.ts"
import { Events } from "./Events.ts"
import { Health } from "./Health.ts"
import { Journal } from "./Journal.ts"
import { Programs } from "./Programs.ts"
import { Sandbox } from "./Sandbox.ts"
import { SpendEvents } from "./SpendEvents.ts"
import { Statements } from "./Statements.ts"
import { Users } from "./Users.ts"
import { Vault } from "./Vault.ts"
import { WebhookEndpoints } from "./WebhookEndpoints.ts"

/** Request bodies have no additional properties (contract, section 2). */
export const bodyParseOptions = { onExcessProperty: "error" } as const

/**
 * The production API without the parts that only its OpenAPI description needs, which are most of the text and of no
 * use to a client.
 */
export class BareIntegratorApi extends HttpApi.make("card-rewards")
  .add(Health, SpendEvents, Users, Programs, Vault, Statements, Journal, ApiKeys, WebhookEndpoints, Events)
  .annotate(HttpApi.PayloadParseOptions, bodyParseOptions)
{}

/** The sandbox API: that of production, the simulated vault and the movable clock. */
export class BareSandboxApi extends BareIntegratorApi.add(Sandbox) {}
