import { CurrentIntegrator } from "@card-rewards/domain/http/RequestPipeline"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Context, Effect } from "effect"
import type { Services } from "./Services.ts"

/**
 * The integrator of a request, which the pipeline provides with the services of its cell: one entry of the context for
 * both, because each entry that is provided copies the context.
 */
export class AdmittedIntegrator {
  readonly integratorId: IntegratorId
  readonly services: Services

  constructor(integratorId: IntegratorId, services: Services) {
    this.integratorId = integratorId
    this.services = services
  }
}

/** Does something for the integrator whose key the request carries, with the services of its cell. */
export const forIntegrator = <A, E, R>(
  act: (integratorId: IntegratorId, services: Services) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R | CurrentIntegrator> =>
  Effect.withFiber((fiber) => {
    const admitted = Context.getUnsafe(fiber.context, CurrentIntegrator)
    if (!(admitted instanceof AdmittedIntegrator)) throw new Error("a handler outside the pipeline")
    return act(admitted.integratorId, admitted.services)
  })
