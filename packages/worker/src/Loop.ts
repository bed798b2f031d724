import * as Database from "@card-rewards/core/Database"
import { serverErrorOf } from "@card-rewards/core/Database/Errors"
import * as Metrics from "@card-rewards/core/Metrics"
import { Unavailable } from "@card-rewards/domain/Errors"
import { Cause, Clock, Context, Duration, Effect, Exit, Layer, Random, type Scope } from "effect"

export interface LoopOptions {
  /** The pause after a step that found nothing to do; 150 ms when absent. */
  readonly idleMillis?: number
  /** The first pause after work; it doubles up to `idleMillis` while there is none. `idleMillis` when absent. */
  readonly firstIdleMillis?: number
  /** Ends the pause early when it completes. */
  readonly wake?: Effect.Effect<void>
  /** The pause in milliseconds after a step that did work; none when absent. */
  readonly rest?: (tookMillis: number) => number
}

const defaultIdleMillis = 150
const firstBackoffMillis = 200
const maxBackoffMillis = 3_000
/** Bounds of a step's deadline; see {@link clampDeadline}. */
const minDeadlineMillis = 5_000
const maxDeadlineMillis = 20_000

/**
 * Whether the database responds now. Deadlines exceeded while it does not are no reason for a longer deadline: the next
 * step's connection may be half-open too.
 */
export const IsReachable = Context.Reference<Effect.Effect<boolean>>("@card-rewards/worker/Loop/IsReachable", {
  defaultValue: () => Effect.succeed(true)
})

const stepDuration = Metrics.durations(
  "card_rewards.worker.step.duration",
  "Duration of the worker's steps, by step and outcome: worked, idle or failed"
)

/**
 * Repeats `step` until it is interrupted: at once or after a rest where it did work (`true`), otherwise after a pause.
 *
 * A failure or defect of a step is logged under `name`, and the step is retried after a pause that doubles from 200 ms
 * to 3 s. The fiber never ends by itself.
 */
export const run = Effect.fnUntraced(function*<E, R>(
  name: string,
  step: Effect.Effect<boolean, E, R>,
  options: LoopOptions = {}
): Effect.fn.Return<never, never, R> {
  const { idleMillis = defaultIdleMillis, firstIdleMillis = idleMillis, rest = () => 0, wake = Effect.never } =
    options
  const measured = (yield* Metrics.Enabled) ? measure(name, step) : step
  let failures = 0
  let deadlineMillis = minDeadlineMillis
  let exceeded = 0
  let pauseMillis = idleMillis
  while (true) {
    const bounded = Effect.provideService(measured, Database.StepMillis, deadlineMillis)
    const [took, exit] = yield* Effect.timed(Effect.exit(bounded))
    const tookMillis = Duration.toMillis(took)
    const isExceeded = Exit.isFailure(exit) && tookMillis >= deadlineMillis && (yield* yield* IsReachable)
    exceeded = isExceeded ? exceeded + 1 : 0
    if (Exit.isSuccess(exit)) deadlineMillis = clampDeadline(4 * tookMillis)
    else if (exceeded > 2) deadlineMillis = clampDeadline(2 * tookMillis)
    if (Exit.isFailure(exit)) {
      const backoffMillis = Math.min(maxBackoffMillis, firstBackoffMillis * 2 ** Math.min(failures, 16))
      failures++
      yield* report(name, backoffMillis, exit.cause)
      yield* jitteredSleep(backoffMillis)
    } else {
      if (failures > 0) yield* Effect.logInfo(`${name} works again after ${failures} failures`)
      failures = 0
      if (exit.value) {
        pauseMillis = firstIdleMillis
        const restMillis = rest(tookMillis)
        yield* restMillis > 0 ? Effect.sleep(restMillis) : Effect.yieldNow
      } else {
        yield* Effect.raceFirst(jitteredSleep(pauseMillis), wake)
        pauseMillis = Math.min(idleMillis, 2 * pauseMillis)
      }
    }
  }
})

/** A step for {@link run} of one that returns how much it did. */
export const working = <E, R>(step: Effect.Effect<number, E, R>): Effect.Effect<boolean, E, R> =>
  Effect.map(step, (count) => count > 0)

/** Runs {@link run} in a fiber of the layer's scope. */
export const layer = <E, R>(
  name: string,
  step: Effect.Effect<boolean, E, R>,
  options?: LoopOptions
): Layer.Layer<never, never, Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(Effect.forkScoped(run(name, step, options)))

const measure = <E, R>(name: string, step: Effect.Effect<boolean, E, R>): Effect.Effect<boolean, E, R> =>
  Effect.flatMap(Clock.monotonicTimeNanos, (startedNanos) =>
    Effect.onExit(step, (exit) => {
      const outcome = Exit.isFailure(exit) ? "failed" : exit.value ? "worked" : "idle"
      return Effect.flatMap(Metrics.secondsSince(startedNanos), (seconds) =>
        Metrics.add(stepDuration, seconds, { step: name, outcome }))
    }))

/**
 * The next step's deadline. It is short while steps are quick, so that a half-open connection is soon abandoned. It
 * grows after a slow step that succeeded, and after the third step in a row that exceeded its deadline while the
 * database responded: the connections of the first two may have been half-open.
 */
const clampDeadline = (millis: number): number => Math.min(maxDeadlineMillis, Math.max(minDeadlineMillis, millis))

/** The jitter keeps workers that wake at the same time from staying in step. */
const jitteredSleep = (millis: number) =>
  Effect.flatMap(Random.nextBetween(0.8, 1.2), (factor) => Effect.sleep(millis * factor))

/**
 * A transient error, such as an unreachable database, is logged as one line, with what PostgreSQL said; any other error
 * with its stack.
 */
const report = (name: string, pauseMillis: number, cause: Cause.Cause<unknown>) => {
  const error = Cause.squash(cause)
  const failed = `${name} failed; trying again in ${pauseMillis} ms`
  if (!(error instanceof Unavailable)) return Effect.logError(failed, cause)
  const said = serverErrorOf(error)
  return Effect.logWarning(
    said === undefined
      ? `${name}: ${error.message}; trying again in ${pauseMillis} ms`
      : `${failed}: ${said.message}`
  )
}
