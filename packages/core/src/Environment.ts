import type { VaultId } from "@card-rewards/domain/Ids"
import { Context, Layer } from "effect"

/** Which of the two worlds a process serves; also the id of every integrator's vault in it (contract, section 2.9). */
export class Environment extends Context.Service<Environment, VaultId>()("@card-rewards/core/Environment") {
  /** The environment, fixed for the life of the process. */
  static readonly layer = (environment: VaultId): Layer.Layer<Environment> => Layer.succeed(Environment, environment)
}
