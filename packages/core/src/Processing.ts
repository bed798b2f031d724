import type { Unavailable } from "@card-rewards/domain/Errors"
import { Context, Effect, Latch, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { BatchLimit } from "./Processing/BatchLimit.ts"
import { EventWeights } from "./Processing/Budget.ts"
import { processNext } from "./Processing/Isolation.ts"
import { ScanState } from "./Processing/Queue.ts"
import * as Retries from "./Processing/Retries.ts"
import * as VaultWork from "./Processing/VaultWork.ts"
import { Programs } from "./Programs.ts"
import * as Tracing from "./Tracing.ts"

export { maxParallel } from "./Processing/LaneShares.ts"
export { SlowScanMillis } from "./Processing/Queue.ts"

/**
 * Turns stored spend events into authorizations, rewards, money moves and events of the log, a batch of lanes in one
 * transaction (decisions, section 5). Any number of processes may do so at once.
 */
export class Processing extends Context.Service<Processing, {
  /**
   * Processes a batch of stored events of several integrators. An integrator whose part fails goes into quarantine; the
   * events of the others are processed all the same. Then loads program versions that deferred events need, at most
   * `maxLoadBytes`. Returns the units of work done (see Processing/Budget.ts), plus one for each integrator that went
   * into quarantine, and each for whose events versions were loaded: 0 where there was nothing to do.
   */
  readonly processEvents: Effect.Effect<number, Unavailable>
  /**
   * Processes the stored events of one integrator in quarantine, in transactions of its own. After a success the
   * integrator leaves quarantine; after a failure the pause before its next retry doubles, up to 30 s. Returns 0 where
   * no retry is due.
   */
  readonly retryQuarantined: Effect.Effect<number, Unavailable>
  /** Completes once this process has put an integrator into quarantine since the last {@link retryQuarantined}. */
  readonly quarantined: Effect.Effect<void>
  /**
   * Does background work of the vault whose work has been due the longest: makes due rewards Claimable, reserves
   * rewards that money is assigned to, continues large claims. Returns 0 where no vault has work.
   */
  readonly matureRewards: Effect.Effect<number, Unavailable>
}>()("@card-rewards/core/Processing") {
  static readonly layer = Layer.effect(
    Processing,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const programs = yield* Programs
      const scan = new ScanState()
      const shared = { programs, scan, weights: new EventWeights() }
      const quarantined = yield* Latch.make()
      const joint = { ...shared, limit: new BatchLimit(), onQuarantined: () => void quarantined.openUnsafe() }
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return Processing.of({
        processEvents: processNext(joint).pipe(
          Effect.tapError(() => Effect.sync(() => scan.reset())),
          run,
          Tracing.deferSpan("Processing.processEvents")
        ),
        retryQuarantined: Effect.andThen(quarantined.close, Retries.make(shared)).pipe(
          run,
          Tracing.deferSpan("Processing.retryQuarantined")
        ),
        quarantined: quarantined.await,
        matureRewards: VaultWork.make().pipe(run, Tracing.deferSpan("Processing.matureRewards"))
      })
    })
  )
}
