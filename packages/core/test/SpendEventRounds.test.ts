import { value } from "@card-rewards/core/Database"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { ahead, cents, event, outcomeOf, services, setUp, times } from "./CountedInserts.ts"

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
