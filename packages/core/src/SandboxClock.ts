import { InvalidRequest, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { ClockCannotGoBack, latestClockMillis, type SandboxClock as ClockReading } from "@card-rewards/domain/SandboxClock"
import { instant, type Instant } from "@card-rewards/domain/Time"
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { value, withinRequestDeadline } from "./Database.ts"

/**
 * The integrators' sandbox clocks (decisions, section 9). A clock ticks with real time and moves forward only. Who
 * holds the vault's lock sees no move until it lets go.
 */
export class SandboxClock extends Context.Service<SandboxClock, {
  /** The clock's present time. */
  readonly get: (integratorId: IntegratorId) => Effect.Effect<ClockReading, Unavailable>
  /**
   * Moves the clock to `now`. Its present time, and a repeat of the last accepted `now`, change nothing; the answer is
   * the present time. Beyond the year 9000 the request is invalid.
   */
  readonly set: (
    integratorId: IntegratorId,
    now: Instant
  ) => Effect.Effect<ClockReading, ClockCannotGoBack | InvalidRequest | Unavailable>
}>()("@card-rewards/core/SandboxClock") {
  static readonly layer: Layer.Layer<SandboxClock, never, SqlClient.SqlClient> = Layer.effect(
    SandboxClock,
    Effect.suspend(() => make)
  )
}

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const get = Effect.fn("SandboxClock.get")(function*(integratorId: IntegratorId) {
    return { now: yield* Effect.provideService(integratorTime(integratorId), SqlClient.SqlClient, sql) }
  }, withinRequestDeadline)

  const set = Effect.fn("SandboxClock.set")(function*(integratorId: IntegratorId, now: Instant) {
    if (now > latestClockMillis) {
      return yield* new InvalidRequest({ part: "body", message: "$.now: the clock cannot be moved beyond the year 9000" })
    }
    yield* sql`SELECT 1 FROM vaults WHERE integrator_id = ${integratorId} FOR UPDATE`
    const clock = yield* read(sql, integratorId)
    if (now === clock.now || now === clock.movedTo) return { now: clock.now }
    if (now < clock.now) {
      return yield* new ClockCannotGoBack({ now: clock.now, message: "The sandbox clock moves forward only" })
    }
    // the worker's next work is due the sooner in real time
    yield* sql`UPDATE vaults SET work_at = work_at - ${value.int8(BigInt(now - clock.now))} * interval '1 millisecond'
      WHERE integrator_id = ${integratorId}`
    yield* sql`UPDATE integrators SET clock_offset_millis = ${value.int8(BigInt(now - clock.real))},
      clock_moved_to = ${value.timestamptz(now)} WHERE integrator_id = ${integratorId}`
    return { now }
  }, sql.withTransaction, withinRequestDeadline)

  return SandboxClock.of({ get, set })
})

/**
 * The integrator's time, for a transaction that stores it: real time, in the sandbox plus what the clock was moved
 * ahead. Runs inside the caller's transaction.
 */
export const integratorTime = Effect.fnUntraced(function*(
  integratorId: IntegratorId
): Effect.fn.Return<Instant, SqlError.SqlError, SqlClient.SqlClient> {
  const { now } = yield* read(yield* SqlClient.SqlClient, integratorId)
  return now
})

const read = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, integratorId: IntegratorId) {
  const [row] = yield* sql<{ offsetMillis: bigint; movedTo: number | null }>`
    SELECT clock_offset_millis AS offset_millis, clock_moved_to AS moved_to
    FROM integrators WHERE integrator_id = ${integratorId}`
  if (row === undefined) return yield* Effect.die(new Error("The clock of an integrator that does not exist was read"))
  const real = yield* Clock.currentTimeMillis
  return { real, now: instant(real + Number(row.offsetMillis)), movedTo: row.movedTo }
})
