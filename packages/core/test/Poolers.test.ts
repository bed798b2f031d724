import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
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

const shown = `SELECT current_user, current_setting('enable_seqscan'), current_setting('statement_timeout'),
  current_setting('transaction_read_only')`

it.live("sessions through a pooler have their role and settings, though it refuses them as startup parameters", () =>
  Effect.gen(function*() {
    const config = yield* awaitSchema({ ...yield* configThrough("session"), isReadOnly: true }, "worker")
    const rows = yield* Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      return yield* Effect.forEach([1, 2], () => Effect.flatMap(sql.reserve, (one) => one.executeValues(shown, [])))
    }).pipe(Effect.provide(Database.layer(config)))
    const expected = ["card_rewards_worker", "off", "30s", "on"]
    assert.deepStrictEqual(rows, [[expected], [expected]])
  }))

it.live("a pooler in transaction mode is refused: it would give some transactions sessions without settings", () =>
  Effect.gen(function*() {
    const config = yield* configThrough("transaction")
    const other = yield* AdminSql.connect(config.url)
    const settings = other`SELECT current_setting('statement_timeout') AS timeout,
      current_setting('default_transaction_read_only') AS read_only`
    const before = yield* settings
    const { message } = yield* Effect.flip(schemaOf({ ...config, isReadOnly: true }))
    assert.strictEqual(message, "The connection pooler before the database must be in session mode")
    assert.deepStrictEqual(yield* settings, before, "those of other clients of the pooler")
  }))
