import { makeMigrated } from "@card-rewards/dev-postgres/TestDatabase"
import * as Pooler from "@card-rewards/testing/Pooler"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { awaitSchema, schemaOf } from "../src/AwaitSchema.ts"
import * as Database from "../src/Database.ts"

const configThrough = Effect.fnUntraced(function*(mode: "session" | "transaction") {
  const through = yield* Pooler.make(mode)
  return { url: through(yield* makeMigrated(Database.migrate)), poolSize: 2, applicationName: "test" }
})

it.live("sessions through a pooler have their role and settings, though it refuses them as startup parameters", () =>
  Effect.gen(function*() {
    const config = yield* awaitSchema({ ...yield* configThrough("session"), isReadOnly: true }, "worker")
    const rows = yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      return yield* Effect.forEach([1, 2], () =>
        Effect.map(
          sql.reserve,
          (session) =>
            session.executeValues(
              `SELECT current_user, current_setting('enable_seqscan'), current_setting('statement_timeout'),
                current_setting('transaction_read_only')`,
              []
            )
        ).pipe(Effect.flatten))
    }).pipe(Effect.provide(Database.layer(config)))
    const expected = ["card_rewards_worker", "off", "30s", "on"]
    assert.deepStrictEqual(rows, [[expected], [expected]])
  }))

it.live("a pooler in transaction mode is refused: it would give some transactions sessions without settings", () =>
  Effect.gen(function*() {
    const config = yield* configThrough("transaction")
    const { message } = yield* Effect.flip(schemaOf(config))
    assert.strictEqual(message, "The connection pooler before the database must be in session mode")
  }))
