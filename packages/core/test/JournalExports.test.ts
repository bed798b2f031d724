import { Integrators } from "@card-rewards/core/Integrators"
import { Journal } from "@card-rewards/core/Journal"
import { untilTrue } from "@card-rewards/testing/Polling"
import { waitingFor } from "@card-rewards/testing/TableLocks"
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { liveLayer, newIntegratorId } from "./TestLayer.ts"

/** The journal of one cell, as far as its limits go. */
const newJournal = Effect.map(Layer.build(Layer.fresh(Journal.layer)), (built) => Context.get(built, Journal))

layer(liveLayer, { excludeTestServices: true })("exports of the journal", (it) => {
  it.effect("read two at a time, and those of another cell, and pages, wait for none of them", () =>
    Effect.gen(function*() {
      const [one, other] = [yield* newJournal, yield* newJournal]
      const sql = yield* SqlClient.SqlClient
      const newIntegrator = Effect.flatMap(Integrators, ({ create }) => {
        const id = newIntegratorId("export")
        return Effect.as(create(id), id)
      })
      const [first, second] = [yield* newIntegrator, yield* newIntegrator]
      const exported = yield* Effect.all([newIntegrator, newIntegrator, newIntegrator])
      const [isHeld, areCounted] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const holder = yield* sql`LOCK TABLE journal IN ACCESS EXCLUSIVE MODE`.pipe(
        Effect.andThen(Deferred.succeed(isHeld, undefined)),
        Effect.andThen(Deferred.await(areCounted)),
        sql.withTransaction,
        Effect.forkChild
      )
      yield* Deferred.await(isHeld)
      const query = { after: 0n, limit: 10 }
      const reading = (count: number) =>
        untilTrue(Effect.map(waitingFor("journal"), (waiting) => waiting.length === count))
      const exports = yield* Effect.forEach(exported, (id) => Effect.forkChild(one.listForExport(id, query)))
      yield* reading(2)
      yield* Effect.sleep("100 millis")
      assert.lengthOf(yield* waitingFor("journal"), 2)
      const others = [
        yield* Effect.forkChild(one.list(first, query)),
        yield* Effect.forkChild(other.listForExport(second, query))
      ]
      yield* reading(4)
      yield* Deferred.succeed(areCounted, undefined)
      yield* Fiber.join(holder)
      const pages = yield* Effect.forEach([...exports, ...others], (fiber) => Fiber.join(fiber))
      assert.deepStrictEqual(pages, pages.map(() => ({ entries: [], next: 0n })))
    }).pipe(Effect.scoped))
})
