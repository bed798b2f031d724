import { makeEmpty } from "@card-rewards/dev-postgres/TestDatabase"
import { assert, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Database from "../src/Database.ts"
import { ownedSlots } from "../src/CellSlots.ts"
import { grants, roles } from "../src/Roles.ts"
import { liveLayer } from "./TestLayer.ts"

/** Tables of the cell itself; all others have rows of integrators, which move to other cells and leave. */
const ofCell = ["cell_slots", "effect_sql_migrations", "operator_actions"]
/** Tables with another unique key: a request's key is looked up before its integrator is known. */
const lookedUp = ["api_key_hashes"]

layer(liveLayer, { excludeTestServices: true })("the schema", (it) => {
  it.effect("lets the rows of each integrator move: their unique keys and foreign keys begin with integrator_id", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const tables = yield* sql<{ name: string; uniques: ReadonlyArray<string>; persistence: string }>`
        SELECT c.relname AS name, c.relpersistence AS persistence, array_agg(a.attname::text) AS uniques
        FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisunique
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
        GROUP BY 1, 2`
      const moving = tables.filter(({ name }) => !ofCell.includes(name))
      assert.isAbove(moving.length, 20)
      for (const { name, persistence, uniques } of moving) {
        if (!lookedUp.includes(name)) assert.deepStrictEqual([...new Set(uniques)], ["integrator_id"], name)
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
      const others = yield* sql<{ name: string }>`SELECT c.relname AS name FROM pg_class c
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
          AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'integrator_id')
        ORDER BY 1`
      assert.deepStrictEqual(others.map(({ name }) => name), ofCell)
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

/** What an engine that places schemas on nodes does not accept in migrations, or only from a superuser. */
const refused = {
  "a trigger": /\bCREATE (OR REPLACE )?(CONSTRAINT )?TRIGGER\b/i,
  "several changes by one ALTER TABLE, which may add a constraint": /\bALTER TABLE [^;`]*,\s*(ADD|DROP|ALTER)\b/i,
  "an index that is built outside a transaction": /\bCONCURRENTLY\b/i,
  "a name in another schema": /\b(public|pg_temp)\.[a-z]/i
}

it("migrations have nothing that a distributed schema refuses", () => {
  const folder = join(import.meta.dirname, "../src/migrations")
  const files = globSync("**/*.ts", { cwd: folder })
  assert.isAbove(files.length, 8)
  for (const file of files) {
    const text = readFileSync(join(folder, file), "utf8")
    for (const [what, pattern] of Object.entries(refused)) assert.notMatch(text, pattern, `${file}: ${what}`)
  }
  assert.match("ALTER TABLE a ADD COLUMN b int, ADD CHECK (b > 0)", Object.values(refused)[1] ?? /^$/)
})

/** What Citus allows in no RETURNING: subqueries, of an INSERT, and the time of the day. */
const refusedInReturning = /\b(SELECT|isOwned|isIdle|atOnce|now\(\)|statement_timestamp|clock_timestamp)\b/

it("statements return nothing that a distributed schema refuses", () => {
  const folder = join(import.meta.dirname, "../src")
  const clauses = globSync("**/*.ts", { cwd: folder }).flatMap((file) =>
    [...readFileSync(join(folder, file), "utf8").matchAll(/RETURNING ([^`]*)`/g)].map(([, clause = ""]) =>
      ({ file, clause: clause.split(/\n    \)/)[0] ?? "" }))
  )
  assert.isAbove(clauses.length, 10)
  for (const { clause, file } of clauses) assert.notMatch(clause, refusedInReturning, file)
})

it.live("the schema of a cell has all that its migrations make, beside another cell's", () =>
  Effect.gen(function*() {
    const url = yield* makeEmpty
    const at = (schema: string) => Database.layer({ url, schema, poolSize: 1, applicationName: "test" })
    const made = Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      return yield* sql<{ schema: string; objects: number }>`
        SELECT nspname AS schema, (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid)::int
          + (SELECT count(*) FROM pg_proc WHERE pronamespace = n.oid)::int AS objects
        FROM pg_namespace n WHERE nspname !~ '^pg_|^information_schema$' ORDER BY 1`
    })
    yield* Database.migrate(url, { schema: "cell_a", slots: new Set([1, 2]) })
    const first = yield* Effect.provide(made, at("cell_a"))
    yield* Database.migrate(url, { schema: "cell_b", slots: new Set([3]) })
    // slots are given once
    yield* Database.migrate(url, { schema: "cell_b", slots: new Set([4]) })
    const both = yield* Effect.provide(made, at("cell_b"))
    const [{ objects } = { objects: 0 }] = first
    assert.isAbove(objects, 50)
    assert.deepStrictEqual(first, [{ schema: "cell_a", objects }, { schema: "public", objects: 0 }])
    assert.deepStrictEqual(both, [
      { schema: "cell_a", objects },
      { schema: "cell_b", objects },
      { schema: "public", objects: 0 }
    ])
    const slots: Readonly<Record<string, ReadonlyArray<number>>> = { cell_a: [1, 2], cell_b: [3] }
    for (const [schema, own] of Object.entries(slots)) {
      assert.deepStrictEqual([...(yield* Effect.provide(ownedSlots, at(schema))).keys()], own)
    }
  }).pipe(Effect.scoped))
