import * as Database from "@card-rewards/core/Database"
import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import * as Rows from "@card-rewards/dev-postgres/Rows"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"

/** The migrations of the first release. */
const firstRelease = { "0001_initial": Database.migrations["0001_initial"] }

/** Another database with the rows of this one, in the tables of the first release. */
export const copyOf = Effect.fnUntraced(function*(url: Redacted.Redacted) {
  const old = yield* TestDatabase.makeEmpty
  // the slots are among the rows
  yield* Database.migrate(old, { migrations: firstRelease, slots: new Set() })
  const fill = Effect.gen(function*() {
    yield* Rows.copy(yield* AdminSql.connect(url), yield* SqlClient.SqlClient)
  })
  yield* Effect.scoped(Effect.provide(fill, Database.layer({ url: old, poolSize: 1, applicationName: "test" })))
  return old
})
