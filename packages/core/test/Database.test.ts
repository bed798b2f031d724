import * as Database from "@card-rewards/core/Database"
import { columns, value } from "@card-rewards/core/Database"
import { make } from "@card-rewards/dev-postgres/TestDatabase"
import { earliestMillis, latestMillis } from "@card-rewards/domain/Time"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { liveLayer } from "./TestLayer.ts"

const texts = ["", "a", "'; DROP TABLE users; --", "😀 ü \n\t\\", "x".repeat(10_000)]
const instants = [earliestMillis, -1, 0, 1, 1_793_534_400_123, latestMillis]
const bigs = [0n, 1n, 10_000n, 10n ** 16n, 2n ** 63n, 10n ** 78n - 1n]
const int8s = [0n, 1n, -1n, 10n ** 18n - 1n, 2n ** 63n - 1n]
const bytes = [new Uint8Array(), new Uint8Array([0, 255, 128])]

layer(liveLayer, { excludeTestServices: true })("the driver, as this service sets it", (it) => {
  it.effect("brings back every value of every type in use, alone and as a column with nulls", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const cases = [
        [texts, columns.text, value.text, "text"],
        [instants, columns.timestamptz, value.timestamptz, "timestamptz"],
        [bigs, columns.numeric, value.numeric, "numeric(78,0)"],
        [int8s, columns.int8, value.int8, "bigint"],
        [[0, -5, 2_147_483_647], columns.int4, value.int4, "integer"],
        [bytes, columns.bytea, value.bytea, "bytea"]
      ] as const
      for (const [values, column, scalar, type] of cases) {
        for (const one of values) {
          const [row] = yield* sql`SELECT ${scalar(one as never)}::${sql.literal(type)} AS it`
          assert.deepStrictEqual(row, { it: one })
        }
        const withNull = [...values, null]
        const rows = yield* sql<{ it: unknown }>`
          SELECT it::${sql.literal(type)} FROM unnest(${column(withNull as never)}) WITH ORDINALITY AS t(it, place) ORDER BY place`
        assert.deepStrictEqual(rows.map((row) => row.it), withNull)
        assert.deepStrictEqual(yield* sql`SELECT * FROM unnest(${column([])})`, [])
        const [none] = yield* sql`SELECT ${scalar(undefined)}::${sql.literal(type)} AS it`
        assert.deepStrictEqual(none, { it: null })
      }
      const [flags] = yield* sql`SELECT ${columns.bool([true, false, null])} AS bools, ${columns.int2([0, 15])} AS lanes`
      assert.deepStrictEqual(flags, { bools: [true, false, null], lanes: [0, 15] })
      const json = { b: [1, null, { __proto__: null, x: "ü" }], a: "1" }
      const [stored] = yield* sql`SELECT ${JSON.stringify(json)}::jsonb AS some_json`
      assert.deepStrictEqual(stored, { someJson: json })
    }))

  it.effect("begins a transaction again that PostgreSQL rolled back to end a deadlock", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE pair (id integer PRIMARY KEY, n integer NOT NULL)`
      yield* sql`INSERT INTO pair VALUES (1, 0), (2, 0)`
      const bump = (first: number, second: number) =>
        Database.transaction(Effect.gen(function*() {
          yield* sql`UPDATE pair SET n = n + 1 WHERE id = ${first}`
          yield* Effect.sleep("30 millis")
          yield* sql`UPDATE pair SET n = n + 1 WHERE id = ${second}`
        }))
      yield* Effect.all([bump(1, 2), bump(2, 1)], { concurrency: 2 })
      assert.deepStrictEqual(yield* sql`SELECT n FROM pair`, [{ n: 2 }, { n: 2 }])
    }))

  it.effect("takes any other SQL error for a defect", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const exit = yield* Effect.exit(Database.available(sql`SELECT nothing FROM nowhere`))
      assert.isTrue(exit._tag === "Failure" && exit.cause.reasons.every((reason) => reason._tag === "Die"))
    }))
})

describe("migrations", () => {
  it.live("run once, however many start at the same moment on an empty database", () =>
    Effect.gen(function*() {
      const url = yield* make({ fingerprint: "empty", migrate: () => Effect.void })
      yield* Effect.all([1, 2, 3].map(() => Database.migrate(url)), { concurrency: 3 })
      const rows = yield* Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql<{ migrationId: number }>`SELECT migration_id FROM effect_sql_migrations ORDER BY 1`
      ).pipe(Effect.provide(Database.layer({ url, poolSize: 1, applicationName: "test" })))
      const all = Array.from({ length: Database.schemaVersion }, (_, index) => index + 1)
      assert.deepStrictEqual(rows.map((row) => row.migrationId), all)
    }).pipe(Effect.scoped))
})
