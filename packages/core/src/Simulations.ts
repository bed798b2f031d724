import { NotFound, Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, ProgramId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { ProgramRefused } from "@card-rewards/domain/Program"
import { candidateProblems } from "@card-rewards/domain/Program/Problems"
import { compile } from "@card-rewards/domain/ProgramVersion"
import {
  maxSimulatedTransactions,
  maxSimulationMillis,
  maxSimulationWaitMillis,
  type Simulation,
  type SimulationRequest,
  SimulationTooLarge
} from "@card-rewards/domain/Simulation"
import { Array, Context, Effect, Layer, type Scope, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { takeTime } from "./Database/SessionSettings.ts"
import { CandidateRun } from "./Simulations/CandidateRun.ts"
import * as History from "./Simulations/History.ts"

/** Progress of a simulation: evaluated purchases, and how many there are. */
export interface Progress {
  readonly done: number
  readonly total: number
}

/** Evaluates candidate program versions on recorded history (decisions, section 9 and record 0009). Read-only. */
export class Simulations extends Context.Service<Simulations, {
  /**
   * Compares what the candidate would have paid for purchases with `from ≤ P < to` with what the program paid, on one
   * snapshot. The check that the program exists precedes those of the candidate, and these precede the check of the
   * size. Fails with {@link Unavailable} while a simulation of the integrator runs or waits in this process, or has
   * waited for 30 s: {@link maxConcurrent} run at the same time.
   */
  readonly simulate: (
    integratorId: IntegratorId,
    programId: ProgramId,
    request: SimulationRequest,
    unknownKeyProblems: ReadonlyArray<string>,
    onProgress?: (progress: Progress) => Effect.Effect<void>
  ) => Effect.Effect<Simulation, NotFound | ProgramRefused | SimulationTooLarge | Unavailable>
}>()("@card-rewards/core/Simulations") {
  /**
   * `limits` are 1,000,000 purchases, as many refunds of them, and 60 s by default (decisions, section 9); tests set
   * others. `takePermit` takes those of all cells of the process, its own by default.
   */
  static readonly layer = (
    limits: Limits = { transactions: maxSimulatedTransactions, millis: maxSimulationMillis },
    takePermit: TakePermit = makePermits()
  ): Layer.Layer<Simulations, never, SqlClient.SqlClient> => Layer.effect(Simulations, make(limits, takePermit))
}

/** Purchases that one simulation may evaluate, as many refunds of them, and milliseconds that it may take. */
export interface Limits {
  readonly transactions: number
  readonly millis: number
}

/** The maximum number of simulations that one process runs concurrently: each occupies a connection of the api. */
const maxConcurrent = 2

/**
 * Waits for one of the permits of a process, in order, and holds it until the scope closes. While further simulations
 * were refused at once, two integrators that simulated again and again kept all others from it.
 */
export type TakePermit = Effect.Effect<void, never, Scope.Scope>

/** Makes the permits of a process. */
export const makePermits = (): TakePermit => Semaphore.makeUnsafe(maxConcurrent).takeScoped(1)

/** The number of rows that are evaluated without a pause for other requests: less than 10 ms for any candidate. */
const sliceRows = 50

/** PostgreSQL's statement timeout exceeds the simulation's limit by this, in case the process cannot cancel it. */
const graceMillis = 5_000

const make = Effect.fnUntraced(function*(limits: Limits, takePermit: TakePermit) {
  const sql = yield* SqlClient.SqlClient
  const simulating = new Set<IntegratorId>()
  const duration = maxSimulationWaitMillis
  const permit = Effect.timeoutOrElse(takePermit, { duration, orElse: () => tooManyAreRunning })

  const once = <A, E, R>(integratorId: IntegratorId, simulation: Effect.Effect<A, E, R>) =>
    Effect.acquireUseRelease(
      Effect.suspend(() => {
        if (simulating.has(integratorId)) return ownIsRunning
        simulating.add(integratorId)
        return Effect.void
      }),
      () => simulation,
      () => Effect.sync(() => simulating.delete(integratorId))
    )

  const programAsset = Effect.fnUntraced(function*(integratorId: IntegratorId, programId: ProgramId) {
    const [row] = yield* sql<{ asset: Asset }>`
      SELECT asset FROM programs WHERE integrator_id = ${integratorId} AND program_id = ${programId}`
    return row === undefined ? yield* NotFound.of("program", programId) : row.asset
  })

  const simulate = Effect.fn("Simulations.simulate")(
    function*(
      integratorId: IntegratorId,
      programId: ProgramId,
      request: SimulationRequest,
      unknownKeyProblems: ReadonlyArray<string>,
      onProgress: (progress: Progress) => Effect.Effect<void> = () => Effect.void
    ) {
      const { definition } = request
      const asset = yield* Database.withinRequestDeadline(programAsset(integratorId, programId))
      const problems = [...unknownKeyProblems, ...candidateProblems(definition, asset)]
      if (problems.length > 0) {
        const message = "The version was not simulated; problems lists why"
        return yield* new ProgramRefused({ programId, problems, message })
      }
      const running = sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`
        yield* takeTime(limits.millis + graceMillis)
        const window = History.windowOf(integratorId, programId, request)
        const { purchases: total, refunds } = yield* History.countEvents(window, limits.transactions)
        if (total > limits.transactions) return yield* tooLarge(`there are more than ${limits.transactions} purchases`)
        if (refunds > limits.transactions) return yield* tooLarge(`there are more than ${limits.transactions} refunds`)
        const run = new CandidateRun(compile(programId, 0, definition), request)
        let done = 0
        yield* onProgress({ done, total })
        yield* History.forEachPage(window, Effect.fnUntraced(function*(rows) {
          for (const slice of Array.chunksOf(rows, sliceRows)) {
            for (const row of slice) run.apply(row)
            yield* Effect.yieldNow
          }
          if (run.excess !== undefined) return yield* tooLarge(run.excess)
          done += rows.reduce((count, row) => row.kind === "clearing" ? count + 1 : count, 0)
          yield* onProgress({ done, total })
        }))
        return run.finish()
      }))
      const provided = Effect.provideService(running, SqlClient.SqlClient, sql)
      const tooLong = tooLarge(`it takes more than ${limits.millis / 1_000} s`)
      const bounded = Database.withDeadline(limits.millis, provided, () => tooLong)
      return yield* once(integratorId, Effect.scoped(Effect.andThen(permit, bounded)))
    }
  )

  return Simulations.of({ simulate })
})

const ownIsRunning = Effect.fail(
  new Unavailable({ message: "A simulation of this integrator is running; send the same request again after it" })
)

const tooManyAreRunning = Effect.fail(
  new Unavailable({ message: "As many simulations as may are running; send the same request again" })
)

const tooLarge = (reason: string): Effect.Effect<never, SimulationTooLarge> =>
  Effect.fail(new SimulationTooLarge({ message: `The simulation is too large: ${reason}; simulate a shorter time` }))
