import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { grants, roles } from "../src/Roles.ts"
import { liveLayer } from "./TestLayer.ts"

/** Tables that every node of a distributed database has a copy of; see docs/scaling.md. */
const everywhere = ["integrators", "api_keys", "api_key_hashes", "effect_sql_migrations"]

/** The statements of docs/scaling.md that distribute the schema. */
const distribution = /```sql\n([^]*?)```/.exec(
  readFileSync(new URL("../../../docs/scaling.md", import.meta.url), "utf8")
)?.[1] ?? ""

layer(liveLayer, { excludeTestServices: true })("the schema", (it) => {
  it.effect("keeps every table shardable: its unique keys and foreign keys begin with integrator_id", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const tables = yield* sql<{ name: string; uniques: ReadonlyArray<string>; persistence: string }>`
        SELECT c.relname AS name, c.relpersistence AS persistence, array_agg(a.attname::text) AS uniques
        FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisunique
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
        GROUP BY 1, 2`
      const sharded = tables.filter(({ name }) => !everywhere.includes(name))
      assert.isAbove(sharded.length, 20)
      const distributed = new Set([...distribution.matchAll(/'([a-z_]+)'/g)].map(([, name]) => name))
      for (const { name } of tables) assert.strictEqual(distributed.has(name), name !== "effect_sql_migrations", name)
      for (const { name, persistence, uniques } of sharded) {
        assert.deepStrictEqual([...new Set(uniques)], ["integrator_id"], name)
        assert.strictEqual(persistence, "p", `${name} survives a crash`)
      }
      const keyless = yield* sql`SELECT c.relname FROM pg_class c
        WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
          AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)`
      assert.deepStrictEqual(keyless, [])
      const links = yield* sql<{ name: string; own: string; other: string; target: string }>`
        SELECT k.conrelid::regclass::text AS name, k.confrelid::regclass::text AS target,
          a.attname AS own, b.attname AS other
        FROM pg_constraint k
          JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
          JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1]
        WHERE k.contype = 'f'`
      assert.isAbove(links.length, 10)
      for (const { name, other, own } of links) {
        assert.deepStrictEqual([own, other], ["integrator_id", "integrator_id"], name)
      }
      // a table that every node has in full cannot refer to a sharded table
      const wrong = links.filter(({ name, target }) => everywhere.includes(name) && !everywhere.includes(target))
      assert.deepStrictEqual(wrong, [])
    }))

  it.effect("vacuums tables with an index of due rows after a fixed number of changes, whatever their size", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const tables = yield* sql<{ name: string; options: ReadonlyArray<string> | null }>`
        SELECT DISTINCT c.relname AS name, c.reloptions AS options
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
        WHERE x.relname LIKE '%_due' ORDER BY 1`
      assert.deepStrictEqual(tables.map(({ name }) => name), ["retries", "rewards"])
      for (const { name, options } of tables) {
        for (const option of ["autovacuum_vacuum_scale_factor=0.01", "vacuum_index_cleanup=on"]) {
          assert.include(options ?? [], option, name)
        }
      }
    }))

  it.effect("grants every table to the roles that use it, and to no other role", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const tables = yield* sql<{ name: string }>`SELECT relname AS name FROM pg_class
        WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
          AND relname <> 'effect_sql_migrations'`
      const granted = new Set(roles.flatMap((role) => grants[role].flatMap(Object.keys)))
      assert.deepStrictEqual([...granted].sort(), tables.map(({ name }) => name).sort())
    }))
})
