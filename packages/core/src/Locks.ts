import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { value } from "./Database.ts"
import { isOwned, type Owned, requireOwned } from "./Slots.ts"

/*
 * What a request locks until its transaction ends. All but the last one fail with `Unavailable` where the integrator's
 * slot is not this cell's.
 */

/** No other transaction moves money, stores events, creates or deletes the endpoint, or gives it up. */
export const lockVault = (integratorId: IntegratorId) =>
  lock((sql) => sql`vaults t WHERE t.integrator_id = ${integratorId} FOR UPDATE`)

/**
 * Serialises changes of an integrator's keys and programs, and rotations of its signing secret. It does not block
 * enrollments, which reference the row.
 */
export const lockIntegrator = (integratorId: IntegratorId) =>
  lock((sql) => sql`integrators t WHERE t.integrator_id = ${integratorId} FOR NO KEY UPDATE`)

/** Locks the lane before a record draws its arrival number, so that a user's arrivals commit in their order. */
export const lockLane = (integratorId: IntegratorId, lane: number) =>
  lock((sql) => sql`lanes t WHERE t.integrator_id = ${integratorId} AND t.lane = ${value.int4(lane)} FOR UPDATE`)

/** Locks the rows `t` of a `FROM` clause. */
const lock = Effect.fnUntraced(function*(from: (sql: SqlClient.SqlClient) => Statement.Fragment) {
  const sql = yield* SqlClient.SqlClient
  yield* requireOwned(yield* sql<Owned>`SELECT ${isOwned("t.integrator_id")} AS is_owned FROM ${from(sql)}`)
})

/**
 * Serialises changes of the live endpoint, if there is one, and its holder's records. Events are stored meanwhile. It
 * does not ask who owns the slot: where there is no endpoint, there is no row to ask with.
 */
export const lockLive = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT 1 FROM webhook_endpoints WHERE integrator_id = ${integratorId} AND deleted_at IS NULL
    FOR NO KEY UPDATE`
})
