import { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Context, Effect, Latch, Layer, Ref } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import * as Ledger from "./Ledger.ts"
import { BatchLimit } from "./Processing/BatchLimit.ts"
import { EventWeights } from "./Processing/Budget.ts"
import { processNext } from "./Processing/Isolation.ts"
import { ScanState } from "./Processing/Queue.ts"
import { retryNext } from "./Processing/Retries.ts"
import { Programs } from "./Programs.ts"
import * as Tracing from "./Tracing.ts"

export { QuickScanMillis } from "./Processing/Queue.ts"

/**
 * Turns stored events into authorizations, rewards, money moves and events, a batch of lanes in one transaction
 * (decisions, section 5). Any number of processes may do so at once.
 */
export class Processing extends Context.Service<Processing, {
  /**
   * Processes a batch of stored events of several integrators. One whose part fails goes into quarantine, and the
   * others' events are processed all the same. Answers the units of work done (see Processing/Budget.ts), and one for
   * each integrator that went into quarantine: 0 where there was nothing to do.
   */
  readonly processEvents: Effect.Effect<number, Unavailable>
  /**
   * Processes the stored events of one integrator in quarantine, alone; one that succeeds leaves it, after a failure
   * the pause before the next attempt grows, up to 30 s. Answers 0 where no attempt is due.
   */
  readonly retryQuarantined: Effect.Effect<number, Unavailable>
  /** Completes when this process has put an integrator into quarantine since {@link retryQuarantined} was last run. */
  readonly quarantined: Effect.Effect<void>
  /**
   * Reserves rewards that money is assigned to and makes due ones Claimable, at most {@link Ledger.dueBatch} of one
   * integrator; answers how many changes that were.
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
      const integrator = yield* Ref.make("")
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return Processing.of({
        processEvents: processNext(joint).pipe(
          Effect.tapError(() => Effect.sync(() => scan.watermarks.reset())),
          run,
          Tracing.step("Processing.processEvents")
        ),
        retryQuarantined: Effect.andThen(quarantined.close, retryNext(shared)).pipe(
          run,
          Tracing.step("Processing.retryQuarantined")
        ),
        quarantined: quarantined.await,
        matureRewards: Database.step(sql.withTransaction(matureRewards(integrator))).pipe(
          run,
          Tracing.step("Processing.matureRewards")
        )
      })
    })
  )
}

/** Takes integrators with due rewards, or with rewards to be reserved, in turn. */
const matureRewards = Effect.fnUntraced(function*(cursor: Ref.Ref<string>) {
  const after = yield* Ref.get(cursor)
  const integratorId = (yield* withDue(after)) ?? (after === "" ? undefined : yield* withDue(""))
  yield* Ref.set(cursor, integratorId ?? "")
  if (integratorId === undefined) return 0
  return yield* Tracing.found(() => [])(matureOf(integratorId))
})

const matureOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const books = yield* Ledger.open([{ integratorId, userIds: new Set(), clearings: [] }], { alsoDue: true }).pipe(
    Effect.catchTag("Behind", () =>
      new Unavailable({ message: `More rewards of integrator ${integratorId} are due than one transaction applies` }))
  )
  yield* Ledger.write(books.values())
  return [...books.values()].reduce((sum, book) => sum + book.events.length, 0)
})

const withDue = Effect.fnUntraced(function*(after: string) {
  const sql = yield* SqlClient.SqlClient
  const real = yield* Clock.currentTimeMillis
  const rows = yield* sql<{ integratorId: IntegratorId }>`
    SELECT i.integrator_id FROM integrators i
    -- one step into the index, however many rewards there are and whatever the planner knows of them
    LEFT JOIN LATERAL (
      SELECT claimable_at FROM rewards r WHERE r.integrator_id = i.integrator_id AND r.state = 'Pending'
      ORDER BY r.claimable_at, r.creation LIMIT 1
    ) first ON true
    WHERE i.integrator_id > ${after} AND (
      first.claimable_at <= ${value.timestamptz(real)} + i.clock_offset_millis * interval '1 millisecond'
      OR EXISTS (SELECT 1 FROM vault_balances b WHERE b.integrator_id = i.integrator_id AND b.assigned > 0)
    ) ORDER BY i.integrator_id LIMIT 1`
  return rows[0]?.integratorId
})
