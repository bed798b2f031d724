import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Context, Effect, Layer, Ref } from "effect"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { value } from "./Database.ts"
import * as Ledger from "./Ledger.ts"
import * as Metrics from "./Metrics.ts"
import { type Outcome, runBatch } from "./Processing/Batch.ts"
import * as Load from "./Processing/Load.ts"
import * as Queue from "./Processing/Queue.ts"
import * as Save from "./Processing/Save.ts"
import type { StoredEvent } from "./Processing/State.ts"
import { Programs } from "./Programs.ts"
import * as Tracing from "./Tracing.ts"

export { QuickLookMillis } from "./Processing/Queue.ts"

/**
 * Turns stored events into authorizations, rewards, money moves and events, a batch of lanes in one transaction
 * (decisions, section 5). Any number of processes may do so at once.
 */
export class Processing extends Context.Service<Processing, {
  /**
   * Processes a batch of stored events; then loads the program versions for whose lack events were left in the queue, at
   * most `maxLoadBytes`. Answers 0 where it could do neither.
   */
  readonly processEvents: Effect.Effect<number, Unavailable>
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
      const memory = new Queue.Memory()
      const integrator = yield* Ref.make("")
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return Processing.of({
        processEvents: Database.step(sql.withTransaction(processEvents(programs, memory))).pipe(
          Effect.flatMap(({ deferred, left, taken }) => {
            memory.leave(taken, left)
            return Effect.map(programs.load(taken, deferred), (loaded) => taken.length - deferred.length + loaded)
          }),
          run,
          Tracing.step("Processing.processEvents")
        ),
        matureRewards: Database.step(sql.withTransaction(matureRewards(integrator))).pipe(
          run,
          Tracing.step("Processing.matureRewards")
        )
      })
    })
  )
}

const processEvents = Effect.fnUntraced(function*(programs: Programs["Service"], memory: Queue.Memory) {
  const lanes = yield* Queue.lockLanes(memory)
  const taken = lanes.length === 0 ? [] : yield* Queue.takeEvents(memory, lanes)
  if (taken.length === 0) return { taken, left: [], deferred: [] }
  const { deferred, done } = yield* Tracing.found(() => taken.map((event) => event.traceparent))(applyEvents(programs, lanes, taken))
  return { taken, left: done, deferred }
})

const applied = Metrics.counter("card_rewards.spend_events.applied", "{event}", "Spend events that were applied")

const applyEvents = Effect.fnUntraced(function*(
  programs: Programs["Service"],
  lanes: ReadonlyArray<Save.Lane>,
  asked: ReadonlyArray<StoredEvent>
) {
  const catalogs = yield* programs.catalogs([...new Set(asked.map((event) => event.integratorId))])
  const dependents = yield* Load.dependents(asked)
  const state = yield* Load.state(dependents, catalogs)
  const outcome = runBatch(state, dependents.queued, dependents.resumed)
  yield* Save.save(state, outcome, lanes)
  yield* settle(outcome)
  yield* Metrics.afterCommit(() => Metrics.addByKind(applied, outcome.applied))
  return outcome
})

/** Carries the orders of a batch out on the vaults. */
const settle = Effect.fnUntraced(function*({ orders }: Outcome) {
  if (orders.length === 0) return
  const byIntegrator = Map.groupBy(orders, ({ event }) => event.integratorId)
  const touched = [...byIntegrator].map(([integratorId, own]): Ledger.Touched => ({
    integratorId,
    userIds: new Set(own.map(({ event }) => event.userId)),
    clearings: own.flatMap(({ order }) => order.kind === "refund" ? [order] : [])
  }))
  const books = yield* Ledger.open(touched)
  for (const [integratorId, own] of byIntegrator) {
    const book = books.get(integratorId)
    if (book === undefined) return yield* Effect.die(new Error("an integrator without a vault"))
    for (const { order } of own) {
      yield* order.kind === "earn"
        ? Ledger.earnReward(book, order.reward)
        : Ledger.refundClearing(book, order.userId, order.programIds, order.externalTransactionId, order.refundedCents)
    }
  }
  yield* Ledger.write(books.values())
})

/** Takes integrators with due rewards, or with rewards to be reserved, in turn. */
const matureRewards = Effect.fnUntraced(function*(cursor: Ref.Ref<string>) {
  const after = yield* Ref.get(cursor)
  const integratorId = (yield* withDue(after)) ?? (after === "" ? undefined : yield* withDue(""))
  yield* Ref.set(cursor, integratorId ?? "")
  if (integratorId === undefined) return 0
  return yield* Tracing.found(() => [])(matureOf(integratorId))
})

const matureOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const books = yield* Ledger.open([{ integratorId, userIds: new Set(), clearings: [] }], { alsoDue: true })
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
