import { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { backgroundStep, value } from "../Database.ts"
import { serverErrorOf } from "../Database/Errors.ts"
import { limitLockWaits } from "../Database/SessionSettings.ts"
import * as Ledger from "../Ledger.ts"
import { isOwned } from "../Slots.ts"
import * as Tracing from "../Tracing.ts"
import { lockMillis } from "./Take.ts"

/** The pause after a failure doubles from the first to the last of these values, in milliseconds. */
const firstPauseMillis = 200
const lastPauseMillis = 30_000

/** The maximum number of vaults whose failures one process counts. */
const maxFailing = 1_000

/**
 * The worker's step of background work: locks the vault whose work has been due the longest, among those that no other
 * process has locked, and does a part of its work. After a failure or an exceeded deadline only this vault is
 * postponed, by pauses that double. Returns 0 where no vault's work is due; finding that out costs the same for any
 * number of integrators.
 */
export const make = (): Effect.Effect<number, Unavailable, SqlClient.SqlClient> => {
  const failures = new Map<IntegratorId, number>()
  return Effect.suspend(() => {
    let integratorId: IntegratorId | undefined
    const work = Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`SELECT ${limitLockWaits(lockMillis)}`
      integratorId = yield* lockDueVault
      if (integratorId === undefined) return 0
      return 1 + (yield* Tracing.startDeferred(() => [])(Ledger.work(integratorId)))
    })
    return Effect.flatMap(SqlClient.SqlClient, (sql) => backgroundStep(sql.withTransaction(work))).pipe(
      Effect.tap(() => Effect.sync(() => integratorId !== undefined && failures.delete(integratorId))),
      Effect.catchTag("Unavailable", (error) =>
        integratorId === undefined ? Effect.fail(error) : postpone(failures, integratorId, error)),
      Effect.catchDefect((defect) =>
        integratorId === undefined ? Effect.die(defect) : postpone(failures, integratorId, defect))
    )
  })
}

const lockDueVault = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const [vault] = yield* sql<{ integratorId: IntegratorId }>`
    SELECT integrator_id FROM vaults WHERE work_at <= ${value.timestamptz(real)} AND ${isOwned("integrator_id")}
    ORDER BY work_at LIMIT 1 FOR UPDATE SKIP LOCKED`
  return vault?.integratorId
})

/**
 * Postpones the vault, and logs why. Where that fails too, the database is away, and the caller logs it, as it does for
 * every step: then only a defect is logged here.
 */
const postpone = Effect.fnUntraced(function*(
  failures: Map<IntegratorId, number>,
  integratorId: IntegratorId,
  error: unknown
) {
  const count = failures.get(integratorId) ?? 0
  if (failures.size >= maxFailing) failures.clear()
  failures.set(integratorId, count + 1)
  const pauseMillis = Math.min(lastPauseMillis, firstPauseMillis * 2 ** Math.min(count, 16))
  const pause = Duration.format(Duration.millis(pauseMillis))
  const line = `Background work on the vault of ${integratorId} failed; trying again in ${pause}`
  if (!(error instanceof Unavailable)) yield* Effect.logError(line, error)
  yield* setWorkAt(integratorId, (yield* Clock.currentTimeMillis) + pauseMillis)
  if (error instanceof Unavailable) yield* Effect.logWarning(`${line}: ${(serverErrorOf(error) ?? error).message}`)
  return 1
})

const setWorkAt = Effect.fnUntraced(function*(integratorId: IntegratorId, workAt: number) {
  const sql = yield* SqlClient.SqlClient
  // lockDueVault skips a vault that another transaction has locked, so it need not be postponed
  yield* backgroundStep(sql`UPDATE vaults SET work_at = ${value.timestamptz(workAt)}
    WHERE integrator_id IN (
      SELECT integrator_id FROM vaults WHERE integrator_id = ${integratorId} AND ${isOwned("integrator_id")}
      FOR UPDATE SKIP LOCKED
    )`)
})
