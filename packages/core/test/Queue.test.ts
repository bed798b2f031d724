import { Integrators } from "@card-rewards/core/Integrators"
import { columns, value } from "@card-rewards/core/Database"
import { Processing, QuickLookMillis } from "@card-rewards/core/Processing"
import * as Queue from "@card-rewards/core/Processing/Queue"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { laneOf } from "@card-rewards/domain/Lane"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { liveMoneyLayer, spendEvent } from "./Spending.ts"

const integratorId = IntegratorId.make("queue")
const userId = UserId.make("ann")
const lane = laneOf(userId)

/** As a worker looks where removed rows make every look slow: up to a point that it remembers it does not look again. */
const lookOn = Effect.flatMap(Processing, ({ processEvents }) => processEvents).pipe(
  Effect.provideService(QuickLookMillis, -1)
)

const isApplied = Effect.fnUntraced(function*(id: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT FROM spend_events WHERE integrator_id = ${integratorId} AND external_transaction_id = ${id}
    AND position IS NOT NULL`
  return rows.length === 1
})

/** Inserts an event that is committed only when it is told to; gives how to tell. */
const lateEvent = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const begun = yield* Deferred.make<void>()
  const end = yield* Deferred.make<void>()
  const late = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
    yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
    yield* sql`
      WITH stored AS (
        INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
          cents, descriptor, mcc, occurred_at)
        VALUES (${integratorId}, ${userId}, 'clearing', 'late', ${lane}, now(), 'USD', 100, 'Shop', '5411', now())
        RETURNING arrival
      )
      INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_id, kind, external_transaction_id)
      SELECT ${integratorId}, ${lane}, arrival, ${userId}, 'clearing', 'late' FROM stored`
    yield* Deferred.succeed(begun, undefined)
    yield* Deferred.await(end)
  })))
  yield* Deferred.await(begun)
  return Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(late))
})

const setUp = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const { submit } = yield* SpendEvents
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* Users).put(integratorId, userId, {})
  const now = yield* Clock.currentTimeMillis
  return (id: string) => submit(spendEvent(integratorId, userId, now, { kind: "clearing", externalTransactionId: id }))
})

layer(liveMoneyLayer, { excludeTestServices: true })("the queue of stored events", (it) => {
  it.effect("an event that is committed long after later ones were processed is processed too", () =>
    Effect.gen(function*() {
      const send = yield* setUp(integratorId)
      const commitLate = yield* lateEvent(integratorId)
      // several samples are taken meanwhile
      const until = (yield* Clock.currentTimeMillis) + 2_500
      for (let sent = 0; (yield* Clock.currentTimeMillis) < until; sent++) {
        yield* send(`c${sent}`)
        while (!(yield* isApplied(`c${sent}`))) yield* lookOn
      }
      assert.isFalse(yield* isApplied("late"))
      yield* commitLate
      for (let look = 0; look < 50 && !(yield* isApplied("late")); look++) yield* lookOn
      assert.isTrue(yield* isApplied("late"))
    }))

  it.effect("a batch reads what it takes, also of a queue that was empty when it was analysed", () =>
    Effect.gen(function*() {
      const emptied = IntegratorId.make("emptied")
      const send = yield* setUp(emptied)
      const sql = yield* SqlClient.SqlClient
      yield* send("first")
      const queued = sql<{ n: number }>`SELECT count(*)::int4 AS n FROM spend_event_queue`
      while ((yield* queued)[0]?.n !== 0) yield* lookOn
      yield* sql`ANALYZE spend_event_queue`
      const waiting = 20_000
      yield* sql`
        WITH stored AS (
          INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
            cents, descriptor, mcc, occurred_at)
          SELECT ${emptied}, ${userId}, 'clearing', 'e' || n, ${lane}, now(), 'USD', 100, 'Shop', '5411', now()
          FROM generate_series(1, ${value.int4(waiting)}) AS n RETURNING arrival, external_transaction_id
        )
        INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_id, kind, external_transaction_id)
        SELECT ${emptied}, ${lane}, arrival, ${userId}, 'clearing', external_transaction_id FROM stored`
      // what the session has read and not reported yet; nothing is reported in mid-transaction
      const read = Effect.map(
        sql<{ rows: number }>`SELECT (seq_tup_read + idx_tup_fetch)::int4 AS rows FROM pg_stat_xact_user_tables
          WHERE relname = 'spend_event_queue'`,
        ([row]) => row?.rows ?? 0
      )
      const rows = yield* sql.withTransaction(Effect.gen(function*() {
        const before = yield* read
        yield* lookOn
        return (yield* read) - before
      }))
      const taken = waiting - ((yield* queued)[0]?.n ?? 0)
      assert.isAtLeast(taken, 100)
      assert.isAtMost(rows, 5 * taken)
    }))

  it.effect("what a writer has left is found before its lane is taken as empty up to there", () =>
    Effect.gen(function*() {
      const other = IntegratorId.make("settling")
      const sql = yield* SqlClient.SqlClient
      const send = yield* setUp(other)
      const memory = new Queue.Memory()
      memory.meet([{ integratorId: other, lane }])
      // looks at the lanes that it knows, whatever the time is
      memory.restUntilNanos = 2n ** 62n
      const never = 2n ** 62n
      /** Takes what a look finds; `sampling` finds out before who writes. */
      const look = Effect.fnUntraced(function*(sampling: boolean) {
        memory.sampleAtNanos = sampling ? 0n : never
        const lanes = yield* Queue.lockLanes(memory)
        const taken = lanes.length === 0 ? [] : yield* Queue.takeEvents(memory, lanes)
        yield* sql`DELETE FROM spend_event_queue WHERE integrator_id = ${other}
          AND external_transaction_id = ANY(${columns.text(taken.map((event) => event.externalTransactionId))})`
        memory.leave(taken, taken)
        return taken.map((event) => event.externalTransactionId)
      }, sql.withTransaction, Effect.provideService(QuickLookMillis, -1))
      const start = () => memory.known.get(`${other}\0${lane}`)?.start

      const commitLate = yield* lateEvent(other)
      yield* send("later")
      assert.deepStrictEqual(yield* look(false), ["later"])
      assert.deepStrictEqual(yield* look(true), [])
      yield* commitLate
      assert.deepStrictEqual(yield* look(true), ["late"])
      assert.strictEqual(start(), 0n)
      assert.deepStrictEqual(yield* look(true), [])
      assert.isAbove(Number(start()), 0)
      yield* send("next")
      assert.deepStrictEqual(yield* look(true), ["next"])
    }))
})
