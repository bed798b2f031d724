import { CurrentIntegrator } from "@card-rewards/domain/http/RequestPipeline"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Context, Effect } from "effect"
import { CurrentServices, type Services } from "./Services.ts"

/** Does something for the integrator whose key the request carries, with the services of its cell. */
export const forIntegrator = <A, E, R>(
  act: (integratorId: IntegratorId, services: Services) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R | CurrentIntegrator> =>
  Effect.withFiber((fiber) =>
    act(Context.getUnsafe(fiber.context, CurrentIntegrator).integratorId, fiber.getRef(CurrentServices)))
