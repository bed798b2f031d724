import { value } from "@card-rewards/core/Database"
import { Explanations } from "@card-rewards/core/Explanations"
import { Integrators } from "@card-rewards/core/Integrators"
import { Statements } from "@card-rewards/core/Statements"
import { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { liveMoneyLayer } from "./Spending.ts"

const services = Layer.mergeAll(Explanations.layer, Statements.layer).pipe(Layer.provideMerge(liveMoneyLayer))

layer(services, { excludeTestServices: true })("a request of several transactions", (it) => {
  it.effect("has one deadline for all of them", () =>
    Effect.gen(function*() {
      const integratorId = IntegratorId.make("steps")
      yield* (yield* Integrators).create(integratorId)
      const sql = yield* SqlClient.SqlClient
      const hold = (tables: string, seconds: number) =>
        Effect.forkChild(sql.withTransaction(Effect.andThen(
          sql`LOCK TABLE ${sql.literal(tables)} IN ACCESS EXCLUSIVE MODE`,
          sql`SELECT pg_sleep(${value.int4(seconds)})`
        )))
      // what the first steps read is free again after 4 s; what the second ones need is not, for 4.5 s and more
      const first = yield* hold("user_balances, vault_balances", 4)
      const second = yield* hold("spend_events, vaults", 12)
      yield* Effect.sleep(300)
      const started = yield* Clock.currentTimeMillis
      const explain = (yield* Explanations).explain(integratorId, UserId.make("ann"), "rw:steps:ann:clearing:c:p")
      const today = new Date(started).toISOString().slice(0, 10)
      const statement = (yield* Statements).get(integratorId, { asset: "USDC", from: today, to: today })
      const errors = yield* Effect.all([Effect.flip(explain), Effect.flip(statement)], { concurrency: 2 })
      assert.deepStrictEqual(errors.map(({ _tag }) => _tag), ["Unavailable", "Unavailable"])
      assert.isBelow((yield* Clock.currentTimeMillis) - started, 8_000)
      yield* Fiber.interruptAll([first, second])
    }))
})
