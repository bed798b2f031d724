import { CurrentIntegrator } from "@card-rewards/domain/http/RequestPipeline"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"

/** Does something for the integrator whose key the request carries. */
export const forIntegrator = <A, E, R>(
  act: (integratorId: IntegratorId) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R | CurrentIntegrator> =>
  Effect.flatMap(CurrentIntegrator, ({ integratorId }) => act(integratorId))
