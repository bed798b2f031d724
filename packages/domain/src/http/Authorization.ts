import { Context } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import { IntegratorSuspended, InvalidRequest, RateLimited, Unauthorized, Unavailable } from "../Errors.ts"
import type { IntegratorId } from "../Ids.ts"

/** The integrator that owns the key of the request. */
export class CurrentIntegrator extends Context.Service<CurrentIntegrator, {
  readonly integratorId: IntegratorId
}>()("@card-rewards/domain/http/CurrentIntegrator") {}

const apiKey = HttpApiSecurity.apiKey({ key: "x-api-key" }).pipe(HttpApiSecurity.annotate(
  OpenApi.Description,
  "An API key of the integrator. The first one is given out of band; afterwards the integrator manages its keys itself."
))

/**
 * The `x-api-key` header, whether its integrator may act, and its rate limits (contract, section 5). Any request may
 * meet a database that is away, so `Unavailable` stands here too.
 */
export class Authorization extends HttpApiMiddleware.Service<Authorization, {
  provides: CurrentIntegrator
}>()("@card-rewards/domain/http/Authorization", {
  requiredForClient: true,
  security: { apiKey },
  error: [Unauthorized, IntegratorSuspended, RateLimited, Unavailable]
}) {}

/** Turns what does not decode into the contract's 400. */
export class RequestShape extends HttpApiMiddleware.Service<RequestShape>()(
  "@card-rewards/domain/http/RequestShape",
  { error: InvalidRequest }
) {}
