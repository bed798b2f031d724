import { Integrators } from "@card-rewards/core/Integrators"
import { columns, value } from "@card-rewards/core/Database"
import { Processing, QuickScanMillis } from "@card-rewards/core/Processing"
import { EventWeights } from "@card-rewards/core/Processing/Budget"
import { findLanes, maxLanes, ScanState } from "@card-rewards/core/Processing/Queue"
import { lockLanes, takeEvents } from "@card-rewards/core/Processing/Take"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { laneOf } from "@card-rewards/domain/Lane"
import { spendEvent } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { liveMoneyLayer } from "./Spending.ts"

const integratorId = IntegratorId.make("queue")
const userId = UserId.make("ann")
const lane = laneOf(userId)

/**
 * As a worker where removed rows make every scan slow: it scans the lanes that it remembers, behind their watermarks.
 */
const processOn = Effect.flatMap(Processing, ({ processEvents }) => processEvents).pipe(
  Effect.provideService(QuickScanMillis, -1)
)

const isApplied = Effect.fnUntraced(function*(id: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT FROM spend_events
    WHERE integrator_id = ${integratorId} AND external_transaction_id = ${id} AND position IS NOT NULL`
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
        while (!(yield* isApplied(`c${sent}`))) yield* processOn
      }
      assert.isFalse(yield* isApplied("late"))
      yield* commitLate
      for (let look = 0; look < 50 && !(yield* isApplied("late")); look++) yield* processOn
      assert.isTrue(yield* isApplied("late"))
    }))

  it.effect("a batch reads what it takes, also of a queue that was empty when it was analysed", () =>
    Effect.gen(function*() {
      const emptied = IntegratorId.make("emptied")
      const send = yield* setUp(emptied)
      const sql = yield* SqlClient.SqlClient
      yield* send("first")
      const queued = sql<{ n: number }>`SELECT count(*)::int4 AS n FROM spend_event_queue`
      while ((yield* queued)[0]?.n !== 0) yield* processOn
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
        yield* processOn
        return (yield* read) - before
      }))
      const taken = waiting - ((yield* queued)[0]?.n ?? 0)
      assert.isAtLeast(taken, 100)
      assert.isAtMost(rows, 5 * taken)
    }))

  it.effect("an event of a writer that has ended is found before its lane's watermark passes it", () =>
    Effect.gen(function*() {
      const { integratorId, scan, state, send } = yield* watermarked("ended")
      const watermark = () => state.watermarks.watermarkOf({ integratorId, lane })
      const commitLate = yield* lateEvent(integratorId)
      yield* send("later")
      assert.deepStrictEqual(yield* scan(false), ["later"])
      assert.deepStrictEqual(yield* scan(true), [])
      yield* commitLate
      assert.deepStrictEqual(yield* scan(true), ["late"])
      assert.strictEqual(watermark(), 0n)
      assert.deepStrictEqual(yield* scan(true), [])
      assert.isAbove(Number(watermark()), 0)
      yield* send("next")
      assert.deepStrictEqual(yield* scan(true), ["next"])
    }))

  it.effect("a list of writers that arrives late hides no event of a writer that began after it was read", () =>
    Effect.gen(function*() {
      const { integratorId, scan, send } = yield* watermarked("overlapping")
      const sql = yield* SqlClient.SqlClient
      yield* send("first")
      assert.deepStrictEqual(yield* scan(false), ["first"])
      assert.deepStrictEqual(yield* scan(true), [])
      const read = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const held = Effect.andThen(Deferred.succeed(read, undefined), Deferred.await(gate))
      const slow = yield* Effect.forkChild(
        Effect.provideService(scan(true), SqlClient.SqlClient, delayingAnswers(sql, "pg_locks", held))
      )
      yield* Deferred.await(read)
      const commitLate = yield* lateEvent(integratorId)
      yield* send("later")
      assert.deepStrictEqual(yield* scan(false), ["later"])
      assert.deepStrictEqual(yield* scan(true), [])
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(slow)
      assert.deepStrictEqual(yield* scan(true), [])
      yield* commitLate
      assert.deepStrictEqual(yield* scan(true), ["late"])
    }))

  it.effect("an integrator in quarantine is skipped by scans of all lanes and of the recently busy ones", () =>
    Effect.gen(function*() {
      const { integratorId, scan, state, send } = yield* watermarked("quarantined")
      const sql = yield* SqlClient.SqlClient
      yield* sql`INSERT INTO quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
        VALUES (${integratorId}, 'failing', '', 1, now(), now())`
      yield* send("kept")
      assert.deepStrictEqual(yield* scan(true), [])
      const scanAll = Effect.gen(function*() {
        state.pauseUntilNanos = 0n
        return (yield* findLanes(state, maxLanes)).filter((found) => found.integratorId === integratorId)
      })
      assert.deepStrictEqual(yield* scanAll, [])
      yield* sql`DELETE FROM quarantine WHERE integrator_id = ${integratorId}`
      assert.deepStrictEqual(yield* scanAll, [{ integratorId, lane }])
    }))
})

/**
 * An integrator with one lane, which is scanned as a worker does where removed rows make scans of the whole queue
 * slow.
 */
const watermarked = Effect.fnUntraced(function*(name: string) {
  const integratorId = IntegratorId.make(name)
  const sql = yield* SqlClient.SqlClient
  const send = yield* setUp(integratorId)
  const state = new ScanState()
  const never = 2n ** 62n
  /** Takes what a scan finds; `sampling` reads before who writes. */
  const scan = Effect.fnUntraced(function*(sampling: boolean) {
    state.watermarks.remember([{ integratorId, lane }])
    state.pauseUntilNanos = never
    state.sampleAtNanos = sampling ? 0n : never
    const found = yield* findLanes(state, maxLanes)
    const lanes = found.length === 0 ? [] : yield* lockLanes(found, "skip")
    const read = lanes.length === 0 ? undefined : yield* takeEvents(state, new EventWeights(), lanes)
    const taken = (read?.parts ?? []).flatMap(({ queued }) => queued.map((event) => event.externalTransactionId))
    yield* sql`DELETE FROM spend_event_queue WHERE integrator_id = ${integratorId}
      AND external_transaction_id = ANY(${columns.text(taken)})`
    return taken
  }, sql.withTransaction, Effect.provideService(QuickScanMillis, -1))
  return { integratorId, send, state, scan }
})

/** The same connection pool; statements with `text` are answered once `held` is done. */
const delayingAnswers = (sql: SqlClient.SqlClient, text: string, held: Effect.Effect<void>): SqlClient.SqlClient =>
  new Proxy(sql, {
    apply: (target, self, args) => {
      const statement = Reflect.apply(target, self, args)
      return `${args[0]}`.includes(text) ? Effect.tap(statement, () => held) : statement
    }
  })
