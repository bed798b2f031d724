import { columnList, int4, nullable, type Row, table, text, timestamptz } from "@card-rewards/core/Database/Table"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { liveLayer } from "./TestLayer.ts"

const persons = table("persons", {
  given_name: text(),
  age: int4(),
  last_login_at: nullable(timestamptz()),
  nickname: nullable(text<"Bo" | "Al">())
})
const key = persons.pick("given_name")
const change = persons.pick("age", "nickname")

const ann = { givenName: "Ann", age: 40, lastLoginAt: 1_793_534_400_123, nickname: null }
const bob = { givenName: "Bob", age: 41, lastLoginAt: null, nickname: "Bo" as const }

layer(liveLayer, { excludeTestServices: true })("a table's column list", (it) => {
  it.effect("defines insert, parameters, update and the rows; a nullable column can be omitted", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE persons (given_name text PRIMARY KEY, age int, last_login_at timestamptz, nickname text)`
      yield* sql`${persons.insert([{ givenName: "Ann", age: 40, lastLoginAt: ann.lastLoginAt }, bob])}`
      const all = sql<Row<typeof persons>>`SELECT ${persons.names} FROM persons ORDER BY given_name`
      assert.deepStrictEqual(yield* all, [ann, bob])
      const renamed = sql`SELECT ${persons.renamed("p")} FROM persons p ORDER BY given_name`.withoutTransform
      assert.deepStrictEqual(yield* renamed, [ann, bob])
      const values = yield* sql`SELECT ${persons.names} FROM persons ORDER BY given_name`.values
      assert.deepStrictEqual(persons.rows(values), [ann, bob])

      const changes = columnList({ ...key.columns, ...change.columns })
      yield* sql`UPDATE persons p SET ${change.setFrom("t")}
        FROM ${changes.unnest([{ givenName: "Ann", age: 50, nickname: "Al" }])} WHERE ${key.match("p", "t")}`
      assert.deepStrictEqual(yield* all, [{ ...ann, age: 50, nickname: "Al" }, bob])
      assert.deepStrictEqual(yield* sql`SELECT ${key.of("p")} FROM persons p WHERE p.age = 41`, [{ givenName: "Bob" }])
    }))

  it.effect("accepts any number of rows, including none, with the same text of the statement", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const textOf = (rows: ReadonlyArray<Row<typeof persons>>) => sql`${persons.insert(rows)}`.compile()[0]
      const one = "INSERT INTO persons (given_name, age, last_login_at, nickname) SELECT * FROM " +
        "(SELECT unnest($1), unnest($2), unnest($3), unnest($4)) AS t(given_name, age, last_login_at, nickname)"
      for (const rows of [[], [ann], [ann, bob]]) assert.strictEqual(textOf(rows), one)
    }))
})
