import type { VaultId } from "@card-rewards/domain/Ids"
import { Context, Layer } from "effect"

/** The environment that a process serves, sandbox or production; also the id of its vaults (contract, section 2.9). */
export class Environment extends Context.Service<Environment, VaultId>()("@card-rewards/core/Environment") {
  /** The environment is fixed for the lifetime of the process. */
  static readonly layer = (environment: VaultId): Layer.Layer<Environment> => Layer.succeed(Environment, environment)
}
