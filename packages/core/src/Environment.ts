import type { VaultId } from "@card-rewards/domain/Ids"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { StartRefused } from "./Settings.ts"

/** The environment that a process serves, sandbox or production; also the id of its vaults (contract, section 2.9). */
export class Environment extends Context.Service<Environment, VaultId>()("@card-rewards/core/Environment") {
  /** The environment is fixed for the lifetime of the process. */
  static readonly layer = (environment: VaultId): Layer.Layer<Environment> => Layer.succeed(Environment, environment)
}

/**
 * Fails where the database has vaults of another environment: a process that serves the sandbox would simulate the
 * money of vaults in production.
 */
export const requireSame = Effect.gen(function*() {
  const environment = yield* Environment
  const sql = yield* SqlClient.SqlClient
  const [vault] = yield* sql<{ vaultId: VaultId }>`SELECT vault_id FROM vaults LIMIT 1`
  if (vault === undefined || vault.vaultId === environment) return
  return yield* new StartRefused({
    message: `ENVIRONMENT is ${environment}, and the vaults of the database are of ${vault.vaultId}`
  })
})
