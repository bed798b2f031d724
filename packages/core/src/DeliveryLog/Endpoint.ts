import { NotFound } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { lockLive, lockVault } from "../Locks.ts"

/** An integrator's live endpoint. */
export interface Endpoint {
  readonly integratorId: IntegratorId
  readonly generation: number
  /** The last round that was given to a redelivery or a replay. */
  readonly round: number
  /** The round of the replay that runs. */
  readonly replay: number | null
}

/** The live endpoint with an id. */
export const findEndpoint = Effect.fnUntraced(function*(integratorId: IntegratorId, id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Endpoint>`SELECT integrator_id, generation, round, replay FROM webhook_endpoints
    WHERE integrator_id = ${integratorId} AND endpoint_id = ${id} AND deleted_at IS NULL`
  return row ?? (yield* NotFound.of("webhook_endpoint", id))
})

/** The endpoint, which no holder gives up or records for until the transaction ends. */
export const lockEndpoint = Effect.fnUntraced(function*(integratorId: IntegratorId, id: string) {
  yield* lockVault(integratorId)
  yield* lockLive(integratorId)
  return yield* findEndpoint(integratorId, id)
})
