import * as Database from "@card-rewards/core/Database"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { admin, emptyDatabase } from "./Cli.ts"

layer(emptyDatabase, { excludeTestServices: true })("migrate", (it) => {
  it.effect("refuses a newer schema as every other command does, and grants nothing", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      assert.strictEqual((yield* admin(["migrate"])).status, 0)
      yield* sql`INSERT INTO effect_sql_migrations (migration_id, name) VALUES (99, 'future')`
      yield* sql`REVOKE SELECT ON journal FROM card_rewards_api`
      const stderr = `The database has schema 99, newer than ${Database.schemaVersion}, which this version works on\n`
      for (const command of ["migrate", "audit"]) {
        assert.deepStrictEqual(yield* admin([command]), { status: 1, stdout: "", stderr })
      }
      const [journal] = yield* sql`SELECT has_table_privilege('card_rewards_api', 'journal', 'SELECT') AS granted`
      assert.deepStrictEqual(journal, { granted: false })
    }))
})
