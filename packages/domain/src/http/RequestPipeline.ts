import { Context } from "effect"
import { HttpApiMiddleware } from "effect/http-api"
import { IntegratorSuspended, InvalidRequest, RateLimited, Unauthorized, Unavailable } from "../Errors.ts"
import type { IntegratorId } from "../Ids.ts"

/** The integrator that owns the key of the request. */
export class CurrentIntegrator extends Context.Service<CurrentIntegrator, {
  readonly integratorId: IntegratorId
}>()("@card-rewards/domain/http/CurrentIntegrator") {}

/**
 * What every request to an endpoint other than `/health` passes, in this order (decisions, section 2): the key of the
 * `x-api-key` header, its integrator's suspension and rate limit, the body, the limit on concurrent requests. A request
 * that does not decode is the contract's 400.
 *
 * On the client it stands for the key. The OpenAPI description declares the key as a security scheme (OpenApi.ts).
 */
export class RequestPipeline extends HttpApiMiddleware.Service<RequestPipeline, {
  provides: CurrentIntegrator
}>()("@card-rewards/domain/http/RequestPipeline", {
  requiredForClient: true,
  error: [InvalidRequest, Unauthorized, IntegratorSuspended, RateLimited, Unavailable]
}) {}
