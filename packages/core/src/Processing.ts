import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Clock, Context, Effect, Layer, Ref } from "effect"
import type { Unavailable } from "@card-rewards/domain/Errors"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { columns, value } from "./Database.ts"
import * as Ledger from "./Ledger.ts"
import * as Metrics from "./Metrics.ts"
import { catalogOf } from "./Processing/Apply.ts"
import { type Outcome, runBatch } from "./Processing/Batch.ts"
import * as Load from "./Processing/Load.ts"
import * as Save from "./Processing/Save.ts"
import type { StoredEvent } from "./Processing/State.ts"
import { Programs } from "./Programs.ts"
import * as Tracing from "./Tracing.ts"

/** Lanes that one transaction looks at, and events that it takes from all of them together. */
const maxLanes = 64
const maxEvents = 500

/**
 * Turns stored events into authorizations, rewards, money moves and events, a batch of lanes in one transaction
 * (decisions, section 5). Any number of processes may do so at once.
 */
export class Processing extends Context.Service<Processing, {
  /** Processes a batch of stored events; answers how many it took from the queue or found to apply. */
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
      const lane = yield* Ref.make<LaneKey>(beforeAll)
      const integrator = yield* Ref.make("")
      const run = Effect.provideService(SqlClient.SqlClient, sql)
      return Processing.of({
        processEvents: Database.step(sql.withTransaction(processEvents(programs, lane))).pipe(
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

interface LaneKey {
  readonly integratorId: string
  readonly lane: number
}

const beforeAll: LaneKey = { integratorId: "", lane: -1 }

const processEvents = Effect.fnUntraced(function*(programs: Programs["Service"], cursor: Ref.Ref<LaneKey>) {
  const lanes = yield* lockLanes(cursor)
  if (lanes.length === 0) return 0
  const asked = yield* takeEvents(lanes)
  if (asked.length === 0) return 0
  return yield* Tracing.found(() => asked.map((event) => event.traceparent))(applyEvents(programs, lanes, asked))
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
  return outcome.applied.length + outcome.waiting.length
})

/** Locks the next lanes with work in turn; those that another process holds are passed over. */
const lockLanes = Effect.fnUntraced(function*(cursor: Ref.Ref<LaneKey>) {
  const after = yield* Ref.get(cursor)
  let found = yield* lanesWithWork(after)
  if (found.length < maxLanes && after !== beforeAll) {
    const known = new Set(found.map((lane) => `${lane.integratorId}\0${lane.lane}`))
    const first = yield* lanesWithWork(beforeAll)
    found = [...found, ...first.filter((lane) => !known.has(`${lane.integratorId}\0${lane.lane}`))].slice(0, maxLanes)
  }
  const last = found.at(-1)
  if (last === undefined) return []
  yield* Ref.set(cursor, last)
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Save.Lane>`
    SELECT l.integrator_id, l.lane, l.position
    FROM unnest(${columns.text(found.map((lane) => lane.integratorId))}, ${columns.int2(found.map((lane) => lane.lane))})
      AS t(integrator_id, lane)
    JOIN lanes l ON l.integrator_id = t.integrator_id AND l.lane = t.lane
    ORDER BY l.integrator_id, l.lane FOR UPDATE OF l SKIP LOCKED`
})

/** Skips from lane to lane through the queue's key, so that its cost is the number of lanes, not of events. */
const lanesWithWork = Effect.fnUntraced(function*(after: LaneKey) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<LaneKey>`
    WITH RECURSIVE found AS (
      (SELECT integrator_id, lane, 1 AS place FROM spend_event_queue
        WHERE (integrator_id, lane) > (${value.text(after.integratorId)}, ${value.int4(after.lane)})
        ORDER BY integrator_id, lane LIMIT 1)
      UNION ALL
      SELECT n.integrator_id, n.lane, f.place + 1 FROM found f CROSS JOIN LATERAL (
        SELECT integrator_id, lane FROM spend_event_queue q
        WHERE (q.integrator_id, q.lane) > (f.integrator_id, f.lane)
        ORDER BY q.integrator_id, q.lane LIMIT 1
      ) n WHERE f.place < ${value.int4(maxLanes)}
    ) SELECT integrator_id, lane FROM found`
})

/** The first events of each locked lane, in order of arrival. */
const takeEvents = Effect.fnUntraced(function*(lanes: ReadonlyArray<LaneKey>) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<StoredEvent & { traceparent: string | null }>`
    SELECT e.integrator_id, e.user_id, e.kind, e.external_transaction_id, e.lane, e.arrival, e.currency, e.cents, e.mcc,
      e.occurred_at, e.original_id, e.position, q.traceparent
    FROM unnest(${columns.text(lanes.map((lane) => lane.integratorId))}, ${columns.int2(lanes.map((lane) => lane.lane))})
      AS t(integrator_id, lane)
    CROSS JOIN LATERAL (
      SELECT * FROM spend_event_queue q WHERE q.integrator_id = t.integrator_id AND q.lane = t.lane
      ORDER BY q.arrival LIMIT ${value.int4(Math.ceil(maxEvents / lanes.length))}
    ) q
    JOIN spend_events e ON e.integrator_id = q.integrator_id AND e.user_id = q.user_id AND e.kind = q.kind
      AND e.external_transaction_id = q.external_transaction_id
    ORDER BY e.integrator_id, e.lane, e.arrival`
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
