import { Integrators } from "@card-rewards/core/Integrators"
import { value } from "@card-rewards/core/Database"
import { together } from "@card-rewards/core/Database/Together"
import { maxParallel, Processing, SlowScanMillis } from "@card-rewards/core/Processing"
import { EventWeights } from "@card-rewards/core/Processing/Budget"
import { findLanes, maxLanes, ScanState } from "@card-rewards/core/Processing/Queue"
import * as Segments from "@card-rewards/core/Processing/Segments"
import { lockLanes, takeEvents } from "@card-rewards/core/Processing/Take"
import { slotOf } from "@card-rewards/core/Slots"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { laneOf } from "@card-rewards/domain/Lane"
import { spendEvent } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { liveMoneyLayer } from "./Spending.ts"

const integratorId = IntegratorId.make("queue")
const userId = UserId.make("ann")
const lane = laneOf(userId)

/**
 * A worker's step where dead rows make every scan of the queue slow: it scans recent lanes, each from its watermark.
 */
const processRecent = Effect.flatMap(Processing, ({ processEvents }) => processEvents).pipe(
  Effect.provideService(SlowScanMillis, -1)
)

const isApplied = Effect.fnUntraced(function*(id: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT FROM spend_events
    WHERE integrator_id = ${integratorId} AND external_transaction_id = ${id} AND position IS NOT NULL`
  return rows.length === 1
})

/** Inserts an event in a transaction that stays open. Returns an effect that commits it. */
const insertUncommitted = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const inserted = yield* Deferred.make<void>()
  const end = yield* Deferred.make<void>()
  const inserting = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
    yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
    yield* sql`
      WITH stored AS (
        INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
          cents, descriptor, mcc, occurred_at)
        VALUES (${integratorId}, ${userId}, 'clearing', 'open', ${lane}, now(), 'USD', 100, 'Shop', '5411', now())
        RETURNING arrival
      )
      INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
      SELECT ${integratorId}, ${lane}, arrival, ARRAY[${userId}], ARRAY['clearing'], ARRAY['open'] FROM stored`
    yield* Deferred.succeed(inserted, undefined)
    yield* Deferred.await(end)
  })))
  yield* Deferred.await(inserted)
  return Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(inserting))
})

const setUp = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const { submit } = yield* SpendEvents
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* Users).put(integratorId, userId, {})
  const now = yield* Clock.currentTimeMillis
  return (id: string) => submit(spendEvent(integratorId, userId, now, { kind: "clearing", externalTransactionId: id }))
})

layer(liveMoneyLayer, { excludeTestServices: true })("the queue of stored events", (it) => {
  it.effect("processes an event that is committed long after events with later arrivals were processed", () =>
    Effect.gen(function*() {
      const send = yield* setUp(integratorId)
      const commit = yield* insertUncommitted(integratorId)
      // several samples are taken meanwhile
      const until = (yield* Clock.currentTimeMillis) + 2_500
      for (let sent = 0; (yield* Clock.currentTimeMillis) < until; sent++) {
        yield* send(`c${sent}`)
        while (!(yield* isApplied(`c${sent}`))) yield* processRecent
      }
      assert.isFalse(yield* isApplied("open"))
      yield* commit
      for (let scan = 0; scan < 50 && !(yield* isApplied("open")); scan++) yield* processRecent
      assert.isTrue(yield* isApplied("open"))
    }))

  it.effect("reads hardly more rows than a batch takes, even if the queue was empty when it was analysed", () =>
    Effect.gen(function*() {
      const emptied = IntegratorId.make("emptied")
      const send = yield* setUp(emptied)
      const sql = yield* SqlClient.SqlClient
      yield* send("first")
      const queued = sql<{ n: number }>`SELECT count(*)::int4 AS n FROM spend_event_queue`
      while ((yield* queued)[0]?.n !== 0) yield* processRecent
      yield* sql`ANALYZE spend_event_queue`
      const waiting = 20_000
      yield* sql`
        WITH stored AS (
          INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
            cents, descriptor, mcc, occurred_at)
          SELECT ${emptied}, ${userId}, 'clearing', 'e' || n, ${lane}, now(), 'USD', 100, 'Shop', '5411', now()
          FROM generate_series(1, ${value.int4(waiting)}) AS n RETURNING arrival, external_transaction_id
        )
        INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
        SELECT ${emptied}, ${lane}, arrival, ARRAY[${userId}], ARRAY['clearing'], ARRAY[external_transaction_id]
        FROM stored`
      // rows that the transaction has read so far: the statistics of a session are reported after a commit
      const read = Effect.map(
        sql<{ rows: number }>`SELECT (seq_tup_read + idx_tup_fetch)::int4 AS rows FROM pg_stat_xact_user_tables
          WHERE relname = 'spend_event_queue'`,
        ([row]) => row?.rows ?? 0
      )
      const rows = yield* sql.withTransaction(Effect.gen(function*() {
        const before = yield* read
        yield* processRecent
        return (yield* read) - before
      }))
      const taken = waiting - ((yield* queued)[0]?.n ?? 0)
      assert.isAtLeast(taken, 100)
      assert.isAtMost(rows, 5 * taken)
    }))

  it.effect("finds an event whose writer has committed before the watermark of its lane passes the event", () =>
    Effect.gen(function*() {
      const { integratorId, scan, state, send } = yield* watermarked("ended")
      const watermark = () => state.watermarks.list()[0]?.watermark
      const commit = yield* insertUncommitted(integratorId)
      yield* send("later")
      assert.deepStrictEqual(yield* scan(false), ["later"])
      assert.deepStrictEqual(yield* scan(true), [])
      yield* commit
      assert.deepStrictEqual(yield* scan(true), ["open"])
      assert.strictEqual(watermark(), 0n)
      assert.deepStrictEqual(yield* scan(true), [])
      assert.isAbove(Number(watermark()), 0)
      yield* send("next")
      assert.deepStrictEqual(yield* scan(true), ["next"])
    }))

  it.effect("finds an event whose writer began after a list of writers was read, even if the list arrives later", () =>
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
      const commit = yield* insertUncommitted(integratorId)
      yield* send("later")
      assert.deepStrictEqual(yield* scan(false), ["later"])
      assert.deepStrictEqual(yield* scan(true), [])
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(slow)
      assert.deepStrictEqual(yield* scan(true), [])
      yield* commit
      assert.deepStrictEqual(yield* scan(true), ["open"])
    }))

  it.effect("finds events that a slot brings back from another cell below the watermark of their lane", () =>
    Effect.gen(function*() {
      const { integratorId, scan, state, send } = yield* watermarked("returned")
      const sql = yield* SqlClient.SqlClient
      const slot = value.int4(slotOf(integratorId))
      const [first] = yield* sql<{ arrival: bigint }>`SELECT nextval('arrivals') AS arrival`
      yield* send("sent")
      assert.deepStrictEqual(yield* scan(false), ["sent"])
      for (let scans = 0; scans < 3; scans++) assert.deepStrictEqual(yield* scan(true), [])
      assert.isAbove(Number(state.watermarks.closedArrival), Number(first?.arrival))
      yield* sql`UPDATE cell_slots SET state = 'left', peer = 'other', mark = gen_random_uuid() WHERE slot = ${slot}`
      // scans go on meanwhile, and find nothing
      for (let scans = 0; scans < 3; scans++) assert.deepStrictEqual(yield* scan(true), [])
      yield* sql`INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at,
          currency, cents, descriptor, mcc, occurred_at, arrival)
        VALUES (${integratorId}, ${userId}, 'clearing', 'copied', ${lane}, now(), 'USD', 100, 'Shop', '5411', now(),
          ${value.int8(first?.arrival ?? 0n)})`
      yield* sql`INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
        SELECT integrator_id, lane, arrival, ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id]
        FROM spend_events
        WHERE integrator_id = ${integratorId} AND external_transaction_id = 'copied'`
      yield* sql`UPDATE cell_slots SET state = 'owned', peer = NULL, mark = NULL, epoch = epoch + 2
        WHERE slot = ${slot}`
      yield* send("next")
      assert.deepStrictEqual(yield* scan(true), ["copied", "next"])
      // and the lane gets a watermark again
      for (let scans = 0; scans < 3; scans++) assert.deepStrictEqual(yield* scan(true), [])
      assert.isAbove(Number(state.watermarks.list()[0]?.watermark), Number(first?.arrival))
    }))

  it.effect("finds new lanes after one slow scan of the queue; lanes wait only once several in a row were slow", () =>
    Effect.gen(function*() {
      const { integratorId, send } = yield* watermarked("contended")
      const sql = yield* SqlClient.SqlClient
      const state = new ScanState()
      const clock = yield* TestClock.make()
      const isFound = Effect.map(findLanes(state, maxLanes), (lanes) =>
        lanes.some((found) => found.integratorId === integratorId)).pipe(
          Effect.provideService(SlowScanMillis, 1_000),
          Effect.provideService(Clock.Clock, clock)
        )
      /** A scan whose answer takes two seconds. */
      const slowScan = Effect.provideService(
        isFound,
        SqlClient.SqlClient,
        delayingAnswers(sql, "WITH RECURSIVE", clock.adjust("2 seconds"))
      )
      // as many as scan at the same time
      for (let scans = 0; scans < maxParallel; scans++) assert.isFalse(yield* slowScan)
      yield* send("first")
      assert.isTrue(yield* isFound)
      yield* sql`DELETE FROM spend_event_queue WHERE integrator_id = ${integratorId}`
      for (let scans = 0; scans <= maxParallel; scans++) assert.isFalse(yield* slowScan)
      yield* send("second")
      assert.isFalse(yield* isFound)
      yield* clock.adjust("18 seconds")
      assert.isTrue(yield* isFound)
    }))

  it.effect("finds all lanes with one statement, and in turn where there are more than a batch takes", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM spend_event_queue`
      const names = ["turn-1", "turn-2", "turn-3"]
      for (const name of names) yield* (yield* setUp(IntegratorId.make(name)))("first")
      let statements = 0
      const batch = (state: ScanState, limit: number) =>
        Effect.map(findLanes(state, limit), (found) => state.take(found, limit).map((lane) => lane.integratorId)).pipe(
          Effect.provideService(
            SqlClient.SqlClient,
            delayingAnswers(sql, "WITH RECURSIVE", Effect.sync(() => statements++))
          )
        )
      for (let scans = 0; scans < 3; scans++) assert.deepStrictEqual(yield* batch(new ScanState(), maxLanes), names)
      assert.strictEqual(statements, 3)
      const [full, many] = [new ScanState(), new ScanState()]
      // one scan finds what two batches take, and the next one begins after that
      assert.deepStrictEqual(yield* batch(many, 1), ["turn-1"])
      assert.deepStrictEqual(yield* batch(many, 1), ["turn-2"])
      assert.strictEqual(statements, 4)
      assert.deepStrictEqual(yield* batch(many, 1), ["turn-3"])
      full.isBatchFull = true
      for (const name of names) assert.deepStrictEqual(yield* batch(full, maxLanes), [name])
      assert.strictEqual(statements, 7)
    }))

  it.effect("skips integrators in quarantine, in scans of the whole queue and of recent lanes", () =>
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
 * An integrator with one lane, which is scanned as by a worker where dead rows make scans of the whole queue slow.
 */
const watermarked = Effect.fnUntraced(function*(name: string) {
  const integratorId = IntegratorId.make(name)
  const sql = yield* SqlClient.SqlClient
  const send = yield* setUp(integratorId)
  const state = new ScanState()
  const never = 2n ** 62n
  /** Removes the events that a scan finds from the queue, and returns them. `sampling` samples the writers first. */
  const scan = Effect.fnUntraced(function*(sampling: boolean) {
    state.watermarks.remember([{ integratorId, lane }])
    state.pauseUntilNanos = never
    state.sampleAtNanos = sampling ? 0n : never
    const found = yield* findLanes(state, maxLanes)
    const lanes = found.length === 0 ? [] : yield* lockLanes(found, "skip")
    const read = lanes.length === 0 ? undefined : yield* takeEvents(state, new EventWeights(), lanes)
    const taken = (read?.parts ?? []).flatMap(({ queued }) => queued.map((event) => event.externalTransactionId))
    yield* together(Segments.removal(sql, (read?.parts ?? []).flatMap(({ queued }) => queued)))
    return taken
  }, sql.withTransaction, Effect.provideService(SlowScanMillis, -1))
  return { integratorId, send, state, scan }
})

/** The same connection pool. The result of a statement with `text` is returned once `held` is done. */
const delayingAnswers = (sql: SqlClient.SqlClient, text: string, held: Effect.Effect<void>): SqlClient.SqlClient =>
  new Proxy(sql, {
    apply: (target, self, args) => {
      const statement = Reflect.apply(target, self, args)
      return `${args[0]}`.includes(text) ? Effect.tap(statement, () => held) : statement
    }
  })
