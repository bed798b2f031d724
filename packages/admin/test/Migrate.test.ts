import * as Database from "@card-rewards/core/Database"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { admin, DatabaseUrl, emptyDatabase } from "./Cli.ts"

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

  it.effect("and the reports name each cell that is away, and do the others", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM effect_sql_migrations WHERE migration_id = 99`
      const url = Redacted.value((yield* DatabaseUrl).url)
      const away = ["b", "c"].map((name, index) => `${name}=postgres://u@127.0.0.1:${index + 1}/x?slots=`)
      const CELLS = [`a=${url}?slots=0-255`, ...away].join()
      const stderr = ["b", "c"].map((name) => `Cell ${name}: The database could not be reached`).join("; ") + "\n"
      for (const command of ["migrate", "audit", "backlog", "actions"]) {
        const ended = yield* admin([command], { CELLS })
        assert.deepStrictEqual([ended.status, ended.stderr], [1, stderr], command)
      }
      const [journal] = yield* sql`SELECT has_table_privilege('card_rewards_api', 'journal', 'SELECT') AS granted`
      assert.deepStrictEqual(journal, { granted: true }, "a was migrated")
      const { stdout } = yield* admin(["cells", "list", "--json"], { CELLS })
      const errors = JSON.parse(stdout).map(({ error }: { readonly error?: string }) => error)
      assert.deepStrictEqual(errors, [undefined, ...away.map(() => "The database could not be reached")])
    }))
})
