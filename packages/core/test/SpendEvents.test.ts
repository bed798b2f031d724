import { columns, value } from "@card-rewards/core/Database"
import { queuedEvents } from "@card-rewards/core/Processing/Segments"
import { slotOf } from "@card-rewards/core/Slots"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { UserId } from "@card-rewards/domain/Ids"
import { laneOf } from "@card-rewards/domain/Lane"
import { dayMillis, printTimestamp } from "@card-rewards/domain/Time"
import { spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Result } from "effect"
import { SqlClient } from "effect/sql"
import { setSlot } from "./SlotState.ts"
import { newIntegrator, pairRuns, startMillis, testLayer } from "./TestLayer.ts"

const services = Layer.mergeAll(SpendEvents.layer, Users.layer).pipe(Layer.provideMerge(testLayer))

const event = (integratorId: IntegratorId, id: string, more: object = {}) =>
  spendEvent(integratorId, "u1", startMillis, {
    kind: "clearing",
    externalTransactionId: id,
    amount: usd(100),
    ...more
  })

const setUp = Effect.gen(function*() {
  const integratorId = yield* newIntegrator
  const users = yield* Users
  yield* users.put(integratorId, UserId.make("u1"), {})
  return { integratorId, ...(yield* SpendEvents) }
})

const storedEvents = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ externalTransactionId: string }>`
    SELECT external_transaction_id FROM ${sql.literal(queuedEvents)} q
    JOIN spend_events USING (integrator_id, lane, user_id, kind, external_transaction_id)
    WHERE integrator_id = ${integratorId} ORDER BY arrival`
  return rows.map((row) => row.externalTransactionId)
})

layer(services)("a spend event", (it) => {
  it.effect("is stored and queued once, however often the same content is sent, in any JSON spelling", () =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      const first = yield* submit(event(integratorId, "t1"))
      assert.deepStrictEqual(first, { id: `se:${integratorId}:u1:clearing:t1`, duplicate: false })
      const again = yield* submit(event(integratorId, "t1", {
        amount: { currency: "USD", amount: "000100" },
        occurredAt: printTimestamp(startMillis).replace(".000Z", "Z")
      }))
      assert.isTrue(again.duplicate)
      assert.deepStrictEqual(yield* storedEvents(integratorId), ["t1"])
    }))

  it.effect.each([
    { amount: { currency: "USD", amount: "101" } },
    { amount: { currency: "EUR", amount: "100" } },
    { merchant: { descriptor: "Shop", mcc: "5412" } },
    { merchant: { descriptor: "Shop", mcc: "5411", mid: "1" } },
    { merchant: { descriptor: "Shop", mcc: "5411", country: "DE" } },
    { occurredAt: printTimestamp(startMillis + 1) },
    { authorizationId: "a1" }
  ])("is a conflict with other content: %j", (more) =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      yield* submit(event(integratorId, "t1"))
      const error = yield* Effect.flip(submit(event(integratorId, "t1", more)))
      assert.strictEqual(error._tag, "SpendEventConflict")
      assert.deepStrictEqual(yield* storedEvents(integratorId), ["t1"])
    }))

  it.effect("is stored in the lane of its user, for any characters of the user's id", () =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      const users = yield* Users
      const sql = yield* SqlClient.SqlClient
      for (const userId of ["a", "ü:;/ %", "😀", "\u0001"]) {
        yield* users.put(integratorId, UserId.make(userId), {})
        yield* submit(event(integratorId, "t1", { userId }))
        const rows = yield* sql<{ lane: number }>`SELECT lane FROM spend_events
          WHERE integrator_id = ${integratorId} AND user_id = ${userId}`
        assert.deepStrictEqual(rows, [{ lane: laneOf(userId) }])
      }
    }))

  it.effect("is identified by its tuple, not by its printed id", () =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      const users = yield* Users
      yield* users.put(integratorId, UserId.make("u1:clearing:x"), {})
      const one = yield* submit(event(integratorId, "x:clearing:y"))
      const two = yield* submit(event(integratorId, "y", { userId: "u1:clearing:x" }))
      assert.strictEqual(one.id, two.id)
      assert.isFalse(two.duplicate)
    }))

  it.effect("is refused and not stored where it is over a minute ahead of the clock or its user is not enrolled", () =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      const ahead = event(integratorId, "t1", { occurredAt: printTimestamp(startMillis + 60_001) })
      assert.strictEqual((yield* Effect.flip(submit(ahead)))._tag, "EventInFuture")
      const unknown = event(integratorId, "t1", { userId: "nobody" })
      assert.strictEqual((yield* Effect.flip(submit(unknown)))._tag, "UserNotEnrolled")
      assert.deepStrictEqual(yield* storedEvents(integratorId), [])
      const atTheLimit = event(integratorId, "t1", { occurredAt: printTimestamp(startMillis + 60_000) })
      assert.isFalse((yield* submit(atTheLimit)).duplicate)
    }))

  it.effect("is refused also by an insert that compares none, and the others of the insert are stored", () =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      const { integratorId: other } = yield* setUp
      const refused = [
        { userId: "nobody" },
        { occurredAt: printTimestamp(startMillis + 60_001) }
      ]
      for (const second of [integratorId, other]) {
        for (const [index, what] of refused.entries()) {
          // after an insert with a refused event 20 compare theirs at once
          const names = Array.from({ length: 20 }, (_, nth) => `new-${second}-${index}-${nth}`)
          yield* Effect.forEach(names, (name) => submit(event(integratorId, name)))
          const sent = [
            event(integratorId, `first-${second}-${index}`),
            event(second, `refused-${second}-${index}`, what),
            event(second, `second-${second}-${index}`)
          ]
          const results = yield* Effect.forEach(sent, (one) => Effect.result(submit(one)), { concurrency: "unbounded" })
          const outcomes = results.map((result) => Result.isSuccess(result) ? "stored" : result.failure._tag)
          assert.deepStrictEqual(outcomes, ["stored", index === 0 ? "UserNotEnrolled" : "EventInFuture", "stored"])
        }
      }
    }))

  it.effect("is stored once where two posts arrive at the same moment; the other is a duplicate", () =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      for (let run = 0; run < pairRuns; run++) {
        const same = event(integratorId, `same-${run}`)
        const answers = yield* Effect.all([submit(same), submit(same)], { concurrency: 2 })
        assert.sameMembers(answers.map(({ duplicate }) => duplicate), [true, false])
      }
    }))

  it.effect("is stored once where two posts with different content arrive at once; the other is a conflict", () =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      for (let run = 0; run < pairRuns; run++) {
        const answers = yield* Effect.all([
          Effect.result(submit(event(integratorId, `pair-${run}`))),
          Effect.result(submit(event(integratorId, `pair-${run}`, { amount: { currency: "USD", amount: "7" } })))
        ], { concurrency: 2 })
        assert.sameMembers(
          answers.map((answer) => Result.isSuccess(answer) ? "new" : answer.failure._tag),
          ["new", "SpendEventConflict"]
        )
      }
    }))

  it.effect("is answered independently of the other events of its insert", () =>
    Effect.gen(function*() {
      const { integratorId, submit } = yield* setUp
      const answers = yield* Effect.forEach(
        Array.from({ length: 60 }, (_, index) => index),
        (index) =>
          Effect.result(submit(event(integratorId, `t${index}`, index % 3 === 0 ? { userId: "nobody" } : {}))),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map(Result.isSuccess), answers.map((_, index) => index % 3 !== 0))
      assert.strictEqual((yield* storedEvents(integratorId)).length, 40)
    }))

  it.effect("that is repeated takes a second insert, unless one of the 20 before had such an event", () =>
    Effect.gen(function*() {
      const { integratorId, submit, submitAll } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const storeNew = (prefix: string) =>
        Effect.forEach(Array.from({ length: 20 }, (_, index) => event(integratorId, `${prefix}${index}`)), submit)
      // each event of an insert that is not found to be stored draws an arrival, also in vain
      const drawnBy = Effect.fnUntraced(function*<A, E>(run: Effect.Effect<A, E>) {
        const last = Effect.map(sql<{ value: bigint }>`SELECT last_value AS value FROM arrivals`, ([row]) => row?.value)
        const before = yield* last
        const result = yield* run
        return { result, drawn: Number((yield* last) ?? 0n) - Number(before ?? 0n) }
      })
      yield* storeNew("a")
      const beside = [event(integratorId, "a1"), event(integratorId, "b")]
      const first = yield* drawnBy(submitAll(beside))
      assert.deepStrictEqual(first.result.map(Result.getOrThrow).map(({ duplicate }) => duplicate), [true, false])
      assert.strictEqual(first.drawn, 2 + 1)
      assert.strictEqual((yield* drawnBy(submitAll(beside))).drawn, 0)
      assert.strictEqual((yield* drawnBy(storeNew("c"))).drawn, 20)
      assert.strictEqual((yield* drawnBy(submitAll(beside))).drawn, 2)
      assert.lengthOf(yield* storedEvents(integratorId), 41)
    }))

  it.effect("is queued with the ids that it has, whatever they mean to an array of PostgreSQL", () =>
    Effect.gen(function*() {
      const { integratorId, submit, submitAll } = yield* setUp
      const users = yield* Users
      const ids = ["\"", "\\", "a\"b\\\"", "{a,b}", "a,b", "NULL", "null", " a ", "'", "$1", "é\u{1f600}"]
      for (const id of ids) yield* users.put(integratorId, UserId.make(id), {})
      const inLists = ids.flatMap((id) => [`${id}2`, `${id}3`].map((name) => event(integratorId, name, { userId: id })))
      const alone = ids.map((id) => event(integratorId, `${id}4`, { userId: id }))
      // by the statement that expects repeated events
      yield* submitAll([event(integratorId, "t"), event(integratorId, "t")])
      yield* submitAll(ids.map((id) => event(integratorId, id, { userId: id })))
      yield* Effect.forEach(Array.from({ length: 20 }, (_, index) => event(integratorId, `new${index}`)), submit)
      // by the other one, in lanes with several events and in lanes with one
      yield* submitAll(inLists)
      yield* Effect.forEach(alone, submit)
      const stored = yield* storedEvents(integratorId)
      assert.deepStrictEqual(stored.slice(1, 1 + ids.length), ids)
      const others = [...inLists, ...alone].map(({ externalTransactionId }) => externalTransactionId)
      assert.deepStrictEqual(stored.slice(-others.length), others)
      const sql = yield* SqlClient.SqlClient
      const segments = yield* sql`SELECT FROM spend_event_queue q, unnest(${columns.text(ids)}) id
        WHERE q.external_transaction_ids @> ARRAY[id || 2, id || 3] AND q.integrator_id = ${integratorId}`
      assert.lengthOf(segments, ids.length)
    }))

  it.effect("is dated and judged by its integrator's clock, also beside those of others in one insert", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const set = yield* Effect.forEach([0, 1, 2], (days) =>
        Effect.tap(setUp, ({ integratorId }) =>
          sql`UPDATE integrators SET clock_offset_millis = ${value.int8(BigInt(days * dayMillis))}
            WHERE integrator_id = ${integratorId}`))
      const at = (day: number) => ({ occurredAt: printTimestamp(startMillis + day * dayMillis) })
      const sent = ["a", "b"].flatMap((id) =>
        set.toReversed().flatMap(({ integratorId, submit }) =>
          [0, 1, 2, 3].map((day) => submit(event(integratorId, `${id}${day}`, at(day))))))
      const results = yield* Effect.forEach(sent, Effect.result, { concurrency: "unbounded" })
      const outcomes = results.map((result) => Result.isSuccess(result) ? "stored" : result.failure._tag)
      const first = (stored: number) =>
        Array.from({ length: 4 }, (_, day) => day < stored ? "stored" : "EventInFuture")
      assert.deepStrictEqual(outcomes, ["a", "b"].flatMap(() => [...first(3), ...first(2), ...first(1)]))
      const received = yield* Effect.forEach(set, ({ integratorId }) =>
        sql<{ at: number }>`SELECT DISTINCT received_at AS at FROM spend_events WHERE integrator_id = ${integratorId}`)
      assert.deepStrictEqual(received, [0, 1, 2].map((days) => [{ at: startMillis + days * dayMillis }]))
    }))

  it.effect("of a slot that is leaving the cell is refused, also beside others in one insert", () =>
    Effect.gen(function*() {
      const { integratorId: gone, submit, submitAll } = yield* setUp
      const { integratorId: here } = yield* setUp
      assert.notStrictEqual(slotOf(gone), slotOf(here))
      yield* setSlot(gone, "leaving")
      const events = Array.from({ length: 8 }, (_, index) => event(index % 2 === 0 ? gone : here, `t${index}`))
      const results = yield* Effect.forEach(events, (one) => Effect.result(submit(one)), { concurrency: "unbounded" })
      const outcomes = results.map((result) => Result.isSuccess(result) ? "stored" : result.failure._tag)
      assert.deepStrictEqual(outcomes, Array.from({ length: 4 }, () => ["Unavailable", "stored"]).flat())
      assert.strictEqual((yield* Effect.flip(submitAll([event(gone, "l0"), event(gone, "l1")])))._tag, "Unavailable")
      assert.deepStrictEqual(yield* storedEvents(gone), [])
      assert.deepStrictEqual((yield* storedEvents(here)).toSorted(), ["t1", "t3", "t5", "t7"])
      yield* setSlot(gone, "owned")
    }))
})
