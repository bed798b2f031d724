import { Context, Effect, Layer } from "effect"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import * as Ledger from "./Ledger.ts"
import * as Metrics from "./Metrics.ts"
import { catalogOf } from "./Processing/Apply.ts"
import { type Outcome, runBatch } from "./Processing/Batch.ts"
import * as Load from "./Processing/Load.ts"
import * as Queue from "./Processing/Queue.ts"
import * as Save from "./Processing/Save.ts"
import type { StoredEvent } from "./Processing/State.ts"
import * as VaultWork from "./Processing/VaultWork.ts"
import { Programs } from "./Programs.ts"
import * as Tracing from "./Tracing.ts"

export { QuickLookMillis } from "./Processing/Queue.ts"

/**
 * Turns stored events into authorizations, rewards, money moves and events, a batch of lanes in one transaction
 * (decisions, section 5). Any number of processes may do so at once.
 */
export class Processing extends Context.Service<Processing, {
  /** Processes a batch of stored events; answers how many it took from the queue or found to apply. */
  readonly processEvents: Effect.Effect<number, Unavailable>
  /**
   * Does the background work of one vault that has been due the longest: makes due rewards Claimable, reserves rewards that
   * money is assigned to, goes on with large claims, at most {@link Ledger.WorkSize} of each. Returns 0 where no vault has
   * work; what it costs does not depend on how many integrators there are.
   */
  readonly matureRewards: Effect.Effect<number, Unavailable>
}>()("@card-rewards/core/Processing") {
  static readonly layer = Layer.effect(
    Processing,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const programs = yield* Programs
      const memory = new Queue.Memory()
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return Processing.of({
        processEvents: Database.step(sql.withTransaction(processEvents(programs, memory))).pipe(
          Effect.map(({ left, taken }) => {
            memory.leave(taken, left)
            return taken.length
          }),
          Effect.catchTag("Behind", ({ touched }) => Effect.as(Ledger.catchUp(touched), 1)),
          run,
          Tracing.step("Processing.processEvents")
        ),
        matureRewards: VaultWork.make().pipe(run, Tracing.step("Processing.matureRewards"))
      })
    })
  )
}

const processEvents = Effect.fnUntraced(function*(programs: Programs["Service"], memory: Queue.Memory) {
  const lanes = yield* Queue.lockLanes(memory)
  const taken = lanes.length === 0 ? [] : yield* Queue.takeEvents(memory, lanes)
  if (taken.length === 0) return { taken, left: [] }
  const { done } = yield* Tracing.found(() => taken.map((event) => event.traceparent))(applyEvents(programs, lanes, taken))
  return { taken, left: done }
})

const applied = Metrics.counter("card_rewards.spend_events.applied", "{event}", "Spend events that were applied")

const applyEvents = Effect.fnUntraced(function*(
  programs: Programs["Service"],
  lanes: ReadonlyArray<Save.Lane>,
  asked: ReadonlyArray<StoredEvent>
) {
  const versions = yield* programs.versions([...new Set(asked.map((event) => event.integratorId))])
  const catalogs = new Map([...versions].map(([id, all]) => [id, catalogOf(all)]))
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
      if (book.isBehind) {
        return yield* new Ledger.Behind({ touched: touched.filter((one) => one.integratorId === integratorId) })
      }
      yield* order.kind === "earn"
        ? Ledger.earnReward(book, order.reward)
        : Ledger.refundClearing(book, order.userId, order.programIds, order.externalTransactionId, order.refundedCents)
    }
  }
  yield* Ledger.write(books.values())
})
