import { InvalidRequest, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import {
  ClockCannotGoBack,
  latestClockMillis,
  type SandboxClock as ClockReading
} from "@card-rewards/domain/SandboxClock"
import { instant, type Instant } from "@card-rewards/domain/Time"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { transaction, value, withinRequestDeadline } from "./Database.ts"
import { lockVault } from "./Locks.ts"

/**
 * The integrators' sandbox clocks (decisions, section 9). A clock advances with real time, and requests can move it
 * forward only. It does not move while another transaction has locked the vault.
 */
export class SandboxClock extends Context.Service<SandboxClock, {
  /** The clock's current time. */
  readonly get: (integratorId: IntegratorId) => Effect.Effect<ClockReading, Unavailable>
  /**
   * Moves the clock to `now` and returns its current time. The current time itself is accepted, and a repeat of the
   * last accepted `now` changes nothing. Fails with {@link InvalidRequest} beyond the year 9000.
   */
  readonly set: (
    integratorId: IntegratorId,
    now: Instant
  ) => Effect.Effect<ClockReading, ClockCannotGoBack | InvalidRequest | Unavailable>
}>()("@card-rewards/core/SandboxClock") {
  static readonly layer = Layer.effect(
    SandboxClock,
    Effect.gen(function*() {
      const run = Effect.provideService(SqlClient.SqlClient, yield* SqlClient.SqlClient)
      return SandboxClock.of({
        get: Effect.fn("SandboxClock.get")(get, run),
        set: Effect.fn("SandboxClock.set")(set, run)
      })
    })
  )
}

const get = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  return { now: yield* integratorTime(integratorId) }
}, withinRequestDeadline)

const set = Effect.fnUntraced(function*(integratorId: IntegratorId, now: Instant) {
  const sql = yield* SqlClient.SqlClient
  yield* lockVault(integratorId)
  const clock = yield* read(integratorId)
  if (now === clock.movedTo) return { now: clock.now }
  if (now < clock.now) {
    return yield* new ClockCannotGoBack({ now: clock.now, message: "The sandbox clock moves forward only" })
  }
  const moved = now - clock.now
  if (moved > 0 && now > latestClockMillis) {
    const message = "$.now: the clock cannot be moved beyond the year 9000"
    return yield* new InvalidRequest({ part: "body", message })
  }
  // In real time, the worker's next work becomes due earlier by the same amount, but not earlier than now. Without
  // time zone, because the other subtraction depends on a session's, and Citus allows no such function of a column in
  // an UPDATE.
  if (moved > 0) yield* sql`UPDATE vaults SET work_at = (
      greatest(work_at AT TIME ZONE 'UTC', ${value.timestamptz(clock.real + moved)} AT TIME ZONE 'UTC')
      - ${value.int8(BigInt(moved))} * interval '1 millisecond'
    ) AT TIME ZONE 'UTC' WHERE integrator_id = ${integratorId} AND work_at IS NOT NULL`
  yield* sql`UPDATE integrators SET clock_offset_millis = ${value.int8(BigInt(now - clock.real))},
    clock_moved_to = ${value.timestamptz(now)} WHERE integrator_id = ${integratorId}`
  return { now }
}, transaction)

/**
 * The integrator's current time: real time plus the offset of its sandbox clock. Runs inside the transaction that
 * stores the time.
 */
export const integratorTime = (
  integratorId: IntegratorId
): Effect.Effect<Instant, SqlError.SqlError, SqlClient.SqlClient> => Effect.map(read(integratorId), ({ now }) => now)

const read = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ offsetMillis: bigint; movedTo: number | null }>`
    SELECT clock_offset_millis AS offset_millis, clock_moved_to AS moved_to
    FROM integrators WHERE integrator_id = ${integratorId}`
  if (row === undefined) return yield* Effect.die(new Error("The clock of an integrator that does not exist was read"))
  const real = yield* Clock.currentTimeMillis
  return { real, now: instant(real + Number(row.offsetMillis)), movedTo: row.movedTo }
})
