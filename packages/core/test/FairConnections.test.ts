import * as Database from "@card-rewards/core/Database"
import { FairConnections } from "@card-rewards/core/Database/FairConnections"
import { makeEmpty } from "@card-rewards/dev-postgres/TestDatabase"
import { CurrentIntegrator } from "@card-rewards/domain/http/RequestPipeline"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"

const pool = (poolSize: number) =>
  Layer.unwrap(Effect.map(makeEmpty, (url) => Database.layer({ url, poolSize, applicationName: "test" })))

const forIntegrator = (id: string) =>
  Effect.provideService(CurrentIntegrator, { integratorId: IntegratorId.make(id) })

for (const kind of ["statements", "transactions"] as const) {
  it.live(`a hundred ${kind} of one integrator hold up another one's by a few`, () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const ended: Array<string> = []
      const run = (id: string) => {
        const sleep = sql`SELECT pg_sleep(0.01)`
        return Effect.tap(kind === "statements" ? sleep : sql.withTransaction(sleep), () =>
          Effect.sync(() => ended.push(id))).pipe(forIntegrator(id))
      }
      const flood = yield* Effect.forkChild(Effect.all(Array.from({ length: 100 }, () => run("flood")), {
        concurrency: "unbounded"
      }))
      yield* Effect.sleep(30)
      yield* run("other")
      // those that were running, and one of each of the two in turn
      assert.isAtMost(ended.length, 20)
      yield* Fiber.join(flood)
      assert.strictEqual(ended.length, 101)
    }).pipe(Effect.provide(pool(2))))
}

it.effect("a fiber that is interrupted while it waits, or when its turn comes, keeps no turn", () =>
  Effect.gen(function*() {
    const connections = new FairConnections(1)
    for (const interruptFirst of [true, false]) {
      const end = yield* Deferred.make<void>()
      const borrower = yield* Effect.forkChild(connections.lend(Deferred.await(end)), { startImmediately: true })
      const waiting = yield* Effect.forkChild(connections.lend(Effect.never), { startImmediately: true })
      if (interruptFirst) yield* Fiber.interrupt(waiting)
      Deferred.doneUnsafe(end, Effect.void)
      yield* Fiber.join(borrower)
      yield* Fiber.interrupt(waiting)
      yield* connections.lend(Effect.void)
      yield* Effect.scoped(connections.scoped)
    }
  }), { timeout: 5_000 })

it.effect("one integrator has a quarter of the connections, and the process itself may have all", () =>
  Effect.gen(function*() {
    const connections = new FairConnections(8)
    const end = yield* Deferred.make<void>()
    let borrowed = 0
    const borrow = connections.lend(Effect.andThen(Effect.sync(() => borrowed++), Deferred.await(end)))
    const fork = <A>(effect: Effect.Effect<A>) => Effect.forkChild(effect, { startImmediately: true })
    for (const [count, id, total] of [[5, "flood", 2], [5, "other", 4]] as const) {
      for (let left = count; left > 0; left--) yield* fork(forIntegrator(id)(borrow))
      assert.strictEqual(borrowed, total)
    }
    for (let left = 5; left > 0; left--) yield* fork(borrow)
    assert.strictEqual(borrowed, 8)
    Deferred.doneUnsafe(end, Effect.void)
    while (borrowed < 15) yield* Effect.yieldNow
  }), { timeout: 5_000 })
