import { Deferred, Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { connection } from "./Cli.ts"

/** Enrolls a user of acme in cell a, in a transaction like those of the api. Returns an effect that commits it. */
export const write = Effect.fnUntraced(function*(userId: string) {
  const [isWritten, end] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const writing = Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
    yield* sql`SELECT FROM cell_a.cell_slots LIMIT 1`
    yield* sql`INSERT INTO cell_a.users (integrator_id, user_id, enrolled_at, updated_at)
      VALUES ('acme', ${userId}, now(), now())`
    yield* Deferred.succeed(isWritten, undefined)
    yield* Deferred.await(end)
  })
  const inTransaction = Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(writing))
  const writer = yield* Effect.forkChild(Effect.provide(inTransaction, Layer.fresh(connection)))
  yield* Deferred.await(isWritten)
  return Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(writer))
})
