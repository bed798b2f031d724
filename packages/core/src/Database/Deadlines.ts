import type { Unavailable } from "@card-rewards/domain/Errors"
import { Clock, Context, Effect, Exit, Fiber, Option, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { CurrentDeadline, Deadline } from "./Connections.ts"
import { isConflict, isReadOnly, isSqlError, toUnavailable, unavailable } from "./Errors.ts"

/** Milliseconds after which a request fails with {@link Unavailable}: 503 is due within 5 s (decisions, section 3). */
export const unavailableAfterMillis = 4_500

/**
 * When the request began to wait for its handler, or the first of several steps began, in nanoseconds of the monotonic
 * clock; absent where neither is so. {@link unavailableAfterMillis} counts from then.
 */
export const WaitingSince = Context.Reference<bigint | undefined>("@card-rewards/core/Database/WaitingSince", {
  defaultValue: () => undefined
})

/** When the deadline of a request's next steps begins to count. */
export const deadlineStart: Effect.Effect<bigint> = Effect.withFiber((fiber) =>
  Effect.succeed(fiber.getRef(WaitingSince) ?? fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe()))

/** How much of a request's deadline is left, in milliseconds. */
export const millisLeft: Effect.Effect<number> = Effect.zipWith(
  deadlineStart,
  Clock.monotonicTimeNanos,
  (since, now) => Math.max(0, unavailableAfterMillis - Number(now - since) / 1e6)
)

/** Gives the steps of a request one deadline together, which counts from {@link deadlineStart}. */
export const withOneDeadline = <A, E, R>(steps: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(deadlineStart, (since) => Effect.provideService(steps, WaitingSince, since))

/** Deadline of a background step in milliseconds. Most steps take less than a second. */
export const StepMillis = Context.Reference<number>("@card-rewards/core/Database/StepMillis", {
  defaultValue: () => 20_000
})

/**
 * Runs one transaction, and retries it up to 3 times after a deadlock or serialization failure. Fails with
 * {@link Unavailable} where the database is unreachable or too slow; any other SQL error is a defect.
 */
export const transaction = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Unavailable, R | SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => withinRequestDeadline(sql.withTransaction(effect)))

/** As {@link transaction}, for statements that need none: {@link Unavailable} after {@link unavailableAfterMillis}. */
export const withinRequestDeadline = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Unavailable, R> =>
  Effect.withFiber((fiber) => {
    const since = fiber.getRef(WaitingSince)
    if (since === undefined) return withDeadline(unavailableAfterMillis, effect)
    const waitedMillis = Number(fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe() - since) / 1e6
    return waitedMillis >= unavailableAfterMillis
      ? Effect.fail(unavailable())
      : withDeadline(unavailableAfterMillis - waitedMillis, effect)
  })

/**
 * As {@link withinRequestDeadline}, for a step of background work, which has {@link StepMillis}. It has a deadline too,
 * because a statement on a half-open connection never ends by itself.
 */
export const backgroundStep = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Unavailable, R> =>
  Effect.flatMap(StepMillis, (millis) => withDeadline(millis, effect))

/** How long a statement on a connection that is alive takes to be cancelled, in milliseconds; mostly a few. */
const cancelMillis = 300

/**
 * As {@link withoutDeadline}, but fails after `millis` milliseconds with the error of `onExceeded`. The failure does
 * not wait for the cancellation of the statement, which takes 5 s on a half-open connection. No later statement uses a
 * connection on which this one hung.
 */
export const withDeadline = <A, E, R, Exceeded = Unavailable>(
  millis: number,
  effect: Effect.Effect<A, E | SqlError.SqlError, R>,
  onExceeded: () => Effect.Effect<never, Exceeded | Unavailable> = () => Effect.fail(unavailable())
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Exceeded | Unavailable, R> =>
  Effect.withFiber((caller) => {
    const deadline = new Deadline(caller.getRef(CurrentDeadline))
    // the fiber that runs an effect has the services that the effect requires
    const context = Context.add(caller.context as Context.Context<R>, CurrentDeadline, deadline)
    const fork = Effect.runForkWith(context)
    return Effect.callback((resume) => {
      const work = fork(withoutDeadline(effect))
      const clock = fork(Effect.sleep(millis))
      work.addObserver((exit) => {
        clock.interruptUnsafe()
        resume(exit)
      })
      clock.addObserver((exit) => {
        if (Exit.isSuccess(exit)) {
          const isCancelled = Effect.map(Effect.timeoutOption(Fiber.await(work), cancelMillis), Option.isSome)
          fork(deadline.retireConnections(isCancelled))
          resume(onExceeded())
        }
        work.interruptUnsafe()
      })
      return Effect.sync(() => {
        work.interruptUnsafe()
        clock.interruptUnsafe()
      })
    })
  })

/** Takes the connections that the current work has borrowed out of the pool, and makes all others suspect. */
const retireBorrowed = Effect.flatMap(CurrentDeadline, (deadline) =>
  deadline === undefined ? Effect.void : deadline.retireConnections(Effect.succeed(false)))

/** As {@link withinRequestDeadline}, but without a deadline: for work for which no caller waits. */
export const withoutDeadline = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Unavailable, R> =>
  effect.pipe(
    Effect.retry({ while: isConflict, times: 3, schedule: Schedule.jittered(Schedule.exponential(5)) }),
    Effect.catchIf(isSqlError, (error) =>
      // the session may have been opened while the database was read-only, and would be so for ever
      isReadOnly(error) ? Effect.andThen(retireBorrowed, toUnavailable(error)) : toUnavailable(error)),
    // a rollback that fails because its connection is lost turns the transaction's own error, such as a refusal, into a
    // defect
    Effect.catchCause((cause) => {
      const [lost] = cause.reasons.flatMap((reason) =>
        reason._tag === "Die" && isSqlError(reason.defect) ? [reason.defect] : []
      )
      return lost === undefined ? Effect.failCause(cause) : toUnavailable(lost)
    })
  )
