import { Integrators } from "@card-rewards/core/Integrators"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { type IntegratorId, ProgramId, UserId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { definition, spendEvent } from "@card-rewards/testing/Fixtures"
import { Clock, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { newIntegratorId } from "./TestLayer.ts"

interface SetUp {
  readonly programs?: number
  readonly upcoming?: number
  readonly users?: number
  readonly idOf?: (index: number) => string
  readonly changesOf?: (index: number) => object
}

/**
 * A fresh integrator with some users, some programs in force, of 1 % unless `changesOf` says otherwise, and some that
 * are `upcoming`: in force later.
 */
export const setUp = Effect.fnUntraced(function*(
  { changesOf = () => ({}), idOf = (index) => `p${index}`, programs = 1, upcoming = 0, users = 1 }: SetUp = {}
) {
  const integratorId = newIntegratorId("tenant")
  const userIds = Array.from({ length: users }, (_, index) => UserId.make(`user-${index}`))
  yield* (yield* Integrators).create(integratorId)
  yield* Effect.forEach(userIds, (userId) => Effect.flatMap(Users, ({ put }) => put(integratorId, userId, {})))
  const now = yield* Clock.currentTimeMillis
  const { publish } = yield* Programs
  for (let index = 0; index < programs + upcoming; index++) {
    const from = now + (index < programs ? 400_000 : 400_000_000)
    yield* publish(integratorId, ProgramId.make(idOf(index)), 1, definition(from, changesOf(index)), [])
  }
  yield* (yield* SandboxClock).set(integratorId, instant(now + 500_000))
  let sent = 0
  /** Stores a clearing of a user, unless `more` says otherwise; returns its id. */
  const send = Effect.fnUntraced(function*(more: object = {}, userId = userIds[0] ?? UserId.make("user-0")) {
    const { now } = yield* (yield* SandboxClock).get(integratorId)
    const event = { kind: "clearing", externalTransactionId: `e${++sent}`, ...more }
    yield* (yield* SpendEvents).submit(spendEvent(integratorId, userId, now, event))
    return event.externalTransactionId
  })
  return { integratorId, userIds, send }
})

/** The integrator's events that are not applied yet, in order of arrival. */
export const notApplied = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ id: string }>`SELECT external_transaction_id AS id FROM spend_events
    WHERE integrator_id = ${integratorId} AND position IS NULL ORDER BY arrival`
  return rows.map(({ id }) => id)
})

/** The integrator's row in quarantine, with the time until its next retry in milliseconds. */
export const quarantineOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ reason: string; error: string; failures: number; nextAttemptAt: number }>`
    SELECT reason, error, failures, next_attempt_at FROM quarantine WHERE integrator_id = ${integratorId}`
  const now = yield* Clock.currentTimeMillis
  return rows.map(({ nextAttemptAt, ...row }) => ({ ...row, pauseMillis: nextAttemptAt - now }))[0]
})

/** One step of a worker's joint processing. */
export const processEvents = Effect.flatMap(Processing, (processing) => processing.processEvents)

/** One step of a worker's retries of integrators in quarantine. */
export const retryQuarantined = Effect.flatMap(Processing, (processing) => processing.retryQuarantined)

/** The number of rewards of an integrator. */
export const rewardCount = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ count: number }>`
    SELECT count(*)::int AS count FROM rewards WHERE integrator_id = ${integratorId}`
  return rows[0]?.count ?? 0
})

const trigger = Effect.fnUntraced(function*(operation: string, table: string, integratorId: string, action: string) {
  const sql = yield* SqlClient.SqlClient
  const name = `${operation}_${table}_${integratorId}`
  yield* sql.unsafe(`CREATE FUNCTION "${name}"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF coalesce(NEW.integrator_id, OLD.integrator_id) = '${integratorId}' THEN ${action}; END IF;
    RETURN coalesce(NEW, OLD); END $$`)
  yield* sql.unsafe(
    `CREATE TRIGGER "${name}" BEFORE ${operation} ON ${table} FOR EACH ROW EXECUTE FUNCTION "${name}"()`
  )
  return sql.unsafe(`DROP FUNCTION "${name}" CASCADE`)
})

/** Makes inserts into a table fail for one integrator. Returns an effect that ends that. */
export const failInserts = (table: "rewards" | "user_balances", integratorId: IntegratorId) =>
  trigger("INSERT", table, integratorId, `RAISE EXCEPTION 'injected fault in ${table}'`)

/** Makes inserts of rewards take a minute for one integrator. Returns an effect that ends that. */
export const delayInserts = (integratorId: IntegratorId) =>
  trigger("INSERT", "rewards", integratorId, "PERFORM pg_sleep(60)")

/** The tables of which a batch changes rows that it has read. */
export const changedTables = [
  "spend_events",
  "cap_usage",
  "user_balances",
  "lanes",
  "vaults",
  "vault_balances",
  "spend_event_queue"
] as const

/** Makes PostgreSQL skip changes of a table, without an error, for one integrator. Returns an effect that ends that. */
export const skipChanges = (table: typeof changedTables[number], integratorId: IntegratorId) =>
  trigger("UPDATE OR DELETE", table, integratorId, "RETURN NULL")

/** Locks the integrator's rows of a table in another session. Returns an effect that unlocks them. */
export const holdRows = Effect.fnUntraced(function*(table: "lanes" | "vaults" | "user_balances", integratorId: string) {
  const sql = yield* SqlClient.SqlClient
  const locked = yield* Deferred.make<void>()
  const end = yield* Deferred.make<void>()
  const holding = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
    yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
    yield* sql`SELECT FROM ${sql(table)} WHERE integrator_id = ${integratorId} FOR UPDATE`
    yield* Deferred.succeed(locked, undefined)
    yield* Deferred.await(end)
  })))
  yield* Deferred.await(locked)
  return Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(holding))
})
