import { value } from "@card-rewards/core/Database"
import { slotOf } from "@card-rewards/core/Slots"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { ahead, cents, event, newUser, outcomeOf, services, setUp, times } from "./CountedInserts.ts"

layer(services)("events that a concurrent insert stores", (it) => {
  /** Another session inserts an event, and commits when the effect that is returned runs. */
  const beginInsert = Effect.fnUntraced(function*(integratorId: IntegratorId, id: string, amount: number) {
    const sql = yield* SqlClient.SqlClient
    const isStored = yield* Deferred.make<void>()
    const end = yield* Deferred.make<void>()
    const insert = sql`INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, currency,
        cents, descriptor, mcc, occurred_at, arrival, received_at)
      SELECT integrator_id, user_id, kind, ${id}, lane, currency, ${value.int8(BigInt(amount))}, descriptor, mcc,
        occurred_at, nextval('arrivals'), received_at
      FROM spend_events WHERE integrator_id = ${integratorId} AND external_transaction_id = 'before'`
    const session = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
      yield* insert
      yield* Deferred.succeed(isStored, undefined)
      yield* Deferred.await(end)
    })))
    yield* Deferred.await(isStored)
    return Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(session))
  })

  const untilBlocked = Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const blocked = sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    while ((yield* blocked).length === 0);
  })

  /** A service that expects repeated events, and an event that another session stores. */
  const contended = Effect.gen(function*() {
    const service = yield* setUp()
    const { integratorId, submitAll } = service
    yield* submitAll(times(2, () => event(integratorId, "before")))
    const commit = yield* beginInsert(integratorId, "t", 2)
    return { ...service, commit, before: service.statements() }
  })

  it.effect("are compared in one more statement, and so are the later ones of their identity", () =>
    Effect.gen(function*() {
      const { before, commit, integratorId, statements, submitAll } = yield* contended
      const list = yield* Effect.forkChild(submitAll([
        event(integratorId, "t", { ...ahead, ...cents(1) }),
        event(integratorId, "t", cents(2)),
        event(integratorId, "t", { ...ahead, ...cents(1) }),
        event(integratorId, "t", cents(3)),
        event(integratorId, "t", cents(2)),
        event(integratorId, "other")
      ]))
      yield* untilBlocked
      yield* commit
      assert.deepStrictEqual((yield* Fiber.join(list)).map(outcomeOf), [
        "EventInFuture",
        "duplicate",
        "SpendEventConflict",
        "SpendEventConflict",
        "duplicate",
        "stored"
      ])
      assert.strictEqual(statements() - before, 2)
    }))

  it.effect("are not compared where their callers have left", () =>
    Effect.gen(function*() {
      const { before, commit, integratorId, statements, submit, submitAll } = yield* contended
      const list = yield* Effect.forkChild(submitAll(times(4, (index) => event(integratorId, "t", cents(index)))))
      yield* untilBlocked
      yield* Fiber.interrupt(list)
      yield* commit
      assert.strictEqual(outcomeOf(yield* Effect.result(submit(event(integratorId, "next")))), "stored")
      assert.strictEqual(statements() - before, 2)
    }))
})

layer(services)("a batch of several statements", (it) => {
  it.effect("ends 4.5 s after it began", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const isPending = yield* Deferred.make<void>()
      const hangs = yield* Deferred.make<void>()
      const { integratorId, statements, submit } = yield* setUp((statement) =>
        statement === 1
          ? Deferred.await(isPending)
          : statement === 3
          ? TestClock.adjust("3 seconds")
          : statement === 4
          ? Effect.andThen(Deferred.succeed(hangs, undefined), Effect.never)
          : Effect.void)
      const gone = yield* newUser
      yield* sql`DELETE FROM cell_slots WHERE slot = ${value.int4(slotOf(gone))}`
      const first = yield* Effect.forkChild(submit(event(integratorId, "first")))
      yield* TestClock.adjust(0)
      // the slot of one is not owned, so that each slot takes a statement of its own after the two of both
      const posts = yield* Effect.forEach([integratorId, gone], (id) => Effect.forkChild(submit(event(id, "t"))))
      yield* TestClock.adjust(0)
      yield* Deferred.succeed(isPending, undefined)
      yield* Fiber.join(first)
      yield* Deferred.await(hangs)
      yield* TestClock.adjust("1500 millis")
      for (const post of posts) assert.strictEqual((yield* Effect.flip(Fiber.join(post)))._tag, "Unavailable")
      const overdue = Effect.andThen(TestClock.withLive(Effect.sleep("20 seconds")), Effect.die("the batch goes on"))
      assert.isFalse((yield* Effect.raceFirst(submit(event(integratorId, "next")), overdue)).duplicate)
      assert.strictEqual(statements(), 5)
    }))
})
