import * as Database from "@card-rewards/core/Database"
import * as Metrics from "@card-rewards/core/Metrics"
import { Unavailable } from "@card-rewards/domain/Errors"
import { Cause, Clock, Context, Duration, Effect, Layer, Random, type Scope } from "effect"

export interface LoopOptions {
  /** The pause after a step that found nothing to do; 150 when left out. */
  readonly idleMillis?: number
  /** Completes when there may be work before the pause is over. */
  readonly wake?: Effect.Effect<void>
}

const defaultIdleMillis = 150
const firstBackoffMillis = 200
const maxBackoffMillis = 3_000
/** What a step may take, on a connection that may have died without a word: see {@link patienceFor}. */
const leastPatienceMillis = 5_000
const mostPatienceMillis = 20_000

/**
 * Whether the database answers at present. A step that exceeded its deadline while it did not says nothing about how
 * long the step takes, so that the next one gets no more time: its connection may be half-open too.
 */
export const IsReachable = Context.Reference<Effect.Effect<boolean>>("@card-rewards/worker/Loop/IsReachable", {
  defaultValue: () => Effect.succeed(true)
})

const stepDuration = Metrics.durations(
  "card_rewards.worker.step.duration",
  "Duration of the worker's steps, by step and outcome: worked, idle or failed"
)

/**
 * Repeats `step` until it is interrupted: at once after a step that did work (`true`), after a pause otherwise.
 *
 * Whatever goes wrong in a step, a defect included, is logged under `name` and the step is tried again after a pause
 * that doubles from 200 ms to 3 s. So the fiber never ends by itself.
 */
export const run = Effect.fnUntraced(function*<E, R>(
  name: string,
  step: Effect.Effect<boolean, E, R>,
  options: LoopOptions = {}
): Effect.fn.Return<never, never, R> {
  const { idleMillis = defaultIdleMillis, wake = Effect.never } = options
  const measured = (yield* Metrics.On) ? measure(name, step) : step
  let failures = 0
  let patience = leastPatienceMillis
  let late = 0
  while (true) {
    const bounded = Effect.provideService(measured, Database.StepMillis, patience)
    const [took, exit] = yield* Effect.timed(Effect.exit(bounded))
    const tookMillis = Duration.toMillis(took)
    const isLate = exit._tag === "Failure" && tookMillis >= patience && (yield* yield* IsReachable)
    late = isLate ? late + 1 : 0
    if (exit._tag === "Success") patience = patienceFor(4 * tookMillis)
    else if (late > 2) patience = patienceFor(2 * tookMillis)
    if (exit._tag === "Failure") {
      const pauseMillis = Math.min(maxBackoffMillis, firstBackoffMillis * 2 ** Math.min(failures, 16))
      failures++
      yield* report(name, pauseMillis, exit.cause)
      yield* jitteredSleep(pauseMillis)
    } else {
      if (failures > 0) yield* Effect.logInfo(`${name} works again after ${failures} failures`)
      failures = 0
      if (exit.value) yield* Effect.yieldNow
      else yield* Effect.raceFirst(jitteredSleep(idleMillis), wake)
    }
  }
})

/** {@link run} in a fiber of the layer's scope. */
export const layer = <E, R>(
  name: string,
  step: Effect.Effect<boolean, E, R>,
  options?: LoopOptions
): Layer.Layer<never, never, Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(Effect.forkScoped(run(name, step, options)))

const measure = <E, R>(name: string, step: Effect.Effect<boolean, E, R>): Effect.Effect<boolean, E, R> =>
  Effect.flatMap(Clock.monotonicTimeNanos, (begun) =>
    Effect.onExit(step, (exit) => {
      const outcome = exit._tag === "Failure" ? "failed" : exit.value ? "worked" : "idle"
      return Effect.flatMap(Metrics.secondsSince(begun), (seconds) => Metrics.add(stepDuration, seconds, { step: name, outcome }))
    }))

/**
 * The next step's deadline: short while steps are quick, so that a half-open connection is soon left. A step that was
 * slow and succeeded leaves more to the next one. So does the third in a row that exceeded its deadline while the
 * database answered: the two before may have met half-open connections.
 */
const patienceFor = (millis: number): number => Math.min(mostPatienceMillis, Math.max(leastPatienceMillis, millis))

/** Several workers that woke together do not stay together. */
const jitteredSleep = (millis: number) =>
  Effect.flatMap(Random.nextBetween(0.8, 1.2), (factor) => Effect.sleep(millis * factor))

/**
 * What passes by itself, such as a database that is away, is one line with its message; any other error has its stack.
 */
const report = (name: string, pauseMillis: number, cause: Cause.Cause<unknown>) => {
  const error = Cause.squash(cause)
  return error instanceof Unavailable
    ? Effect.logWarning(`${name}: ${error.message}; trying again in ${pauseMillis} ms`)
    : Effect.logError(`${name} failed; trying again in ${pauseMillis} ms`, cause)
}
