import * as Database from "@card-rewards/core/Database"
import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { makeEmpty, serverUrl } from "@card-rewards/dev-postgres/TestDatabase"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { createHash, randomUUID } from "node:crypto"
import { globSync, readFileSync } from "node:fs"

const at = (url: Redacted.Redacted) => Layer.fresh(Database.layer({ url, poolSize: 1, applicationName: "test" }))

/** The digests of all files of each migration. */
const digests = { "0001_initial": "1075ed2cb88ebe5a" }

it("a migration stays as it is, since databases have it: a change of the schema is another migration", () => {
  const cwd = new URL("../src/migrations/", import.meta.url)
  const found = Object.keys(Database.migrations).map((name) => {
    const files = globSync(`${name}{.ts,/*.ts}`, { cwd }).toSorted()
    const hash = files.reduce((hash, file) => hash.update(readFileSync(new URL(file, cwd))), createHash("sha256"))
    return [name, hash.digest("hex").slice(0, 16)]
  })
  assert.deepStrictEqual(Object.fromEntries(found), digests)
})

it.live("each migration has its own transaction: none keeps what the one before has locked or changed", () =>
  Effect.gen(function*() {
    const url = yield* makeEmpty
    yield* Database.migrate(url)
    const second = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`ALTER TABLE retries ADD COLUMN priority integer`)
    const readAlone = Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`SET lock_timeout = 100`
      yield* sql`SELECT priority FROM retries`
    }).pipe(Effect.provide(at(url)))
    const third = Effect.gen(function*() {
      yield* readAlone
      const sql = yield* SqlClient.SqlClient
      yield* sql`ALTER TABLE retries DROP COLUMN priority`
      yield* sql`SELECT 1 / 0`
    })
    const migrations = { ...Database.migrations, "0002_second": second, "0003_third": third }
    const recorded: Array<string> = []
    const record = (outcome: string) => Effect.sync(() => void recorded.push(outcome))
    const { message } = yield* Effect.flip(Database.migrate(url, { migrations, record }))
    assert.deepStrictEqual(recorded, ["began"])
    assert.strictEqual(message, 'Migration "3_third" failed: division by zero (22012)')
    yield* readAlone
    assert.deepStrictEqual(
      yield* Effect.provide(
        Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT migration_id FROM effect_sql_migrations ORDER BY 1`),
        at(url)
      ),
      [{ migrationId: 1 }, { migrationId: 2 }]
    )
  }).pipe(Effect.scoped))

it.live("a database that cannot store every text is refused", () =>
  Effect.gen(function*() {
    const sql = yield* AdminSql.connect(serverUrl())
    const name = `test_win_${randomUUID().slice(0, 8)}`
    yield* Effect.acquireRelease(
      sql`CREATE DATABASE ${sql(name)} ENCODING 'WIN1252' LOCALE 'C' TEMPLATE template0`,
      () => Effect.orDie(AdminSql.dropDatabase(sql, name))
    )
    const { message } = yield* Effect.flip(Database.migrate(AdminSql.withDatabase(serverUrl(), name)))
    assert.strictEqual(message, "The database's encoding is WIN1252: it must be UTF8")
  }).pipe(Effect.scoped))
