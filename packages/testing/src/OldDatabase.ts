import * as Database from "@card-rewards/core/Database"
import initial from "@card-rewards/core/migrations/0001_initial"
import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import * as Rows from "@card-rewards/dev-postgres/Rows"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { Effect, type Redacted } from "effect"
import { Migrator, SqlClient } from "effect/sql"

/** Another database, as the first release would keep what this one holds: only its migration has been applied. */
export const copyOf = Effect.fnUntraced(function*(url: Redacted.Redacted) {
  const old = yield* TestDatabase.makeEmpty
  const fill = Effect.gen(function*() {
    yield* Migrator.make({})({ loader: Migrator.fromRecord({ "0001_initial": initial }) })
    yield* Rows.copy(yield* AdminSql.connect(url), yield* SqlClient.SqlClient)
  })
  yield* Effect.scoped(Effect.provide(fill, Database.layer({ url: old, poolSize: 1, applicationName: "test" })))
  return old
})
