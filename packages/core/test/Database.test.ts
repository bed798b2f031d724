import * as Database from "@card-rewards/core/Database"
import { columns, value } from "@card-rewards/core/Database"
import { serverErrorOf } from "@card-rewards/core/Database/Errors"
import { takeTime } from "@card-rewards/core/Database/SessionSettings"
import { columnList, type RowVersion, rowVersion } from "@card-rewards/core/Database/Table"
import { makeEmpty } from "@card-rewards/dev-postgres/TestDatabase"
import { Unavailable } from "@card-rewards/domain/Errors"
import { ClockCannotGoBack } from "@card-rewards/domain/SandboxClock"
import { earliestMillis, Instant, instant, latestMillis } from "@card-rewards/domain/Time"
import type { PgTypes } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Layer, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { inspect } from "node:util"
import { liveLayer } from "./TestLayer.ts"

const texts = ["", "a", "'; DROP TABLE users; --", "😀 ü \n\t\\", "x".repeat(10_000)]
const instants = [earliestMillis, -1, 0, 1, 1_793_534_400_123, latestMillis]
const bigs = [0n, 1n, -1n, 10_000n, 10n ** 16n, 2n ** 63n, 10n ** 78n - 1n]
const int8s = [0n, 1n, -1n, 10n ** 18n - 1n, 2n ** 63n - 1n]
const bytes = [new Uint8Array(), new Uint8Array([0, 255, 128])]

/** An integer by its digits of base 10,000, as PostgreSQL stores it. */
const signed = Schema.Struct({
  digits: Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9_999 }))),
  isNegative: Schema.Boolean
})

type OrNot<A> = A | null | undefined

/** Sends each value alone and as an array with nulls, and compares what PostgreSQL returns. */
const roundTrip = <A>(
  sql: SqlClient.SqlClient,
  values: ReadonlyArray<A>,
  column: (values: ReadonlyArray<OrNot<A>>) => PgTypes.Parameter,
  scalar: (value: OrNot<A>) => PgTypes.Parameter,
  type: string
) =>
  Effect.gen(function*() {
    for (const one of values) {
      const [row] = yield* sql`SELECT ${scalar(one)}::${sql.literal(type)} AS it`
      assert.deepStrictEqual(row, { it: one })
    }
    const withNull = [...values, null]
    const rows = yield* sql<{ it: unknown }>`SELECT it::${sql.literal(type)}
      FROM unnest(${column(withNull)}) WITH ORDINALITY AS t(it, place) ORDER BY place`
    assert.deepStrictEqual(rows.map((row) => row.it), withNull)
    assert.deepStrictEqual(yield* sql`SELECT * FROM unnest(${column([])})`, [])
    const [none] = yield* sql`SELECT ${scalar(undefined)}::${sql.literal(type)} AS it`
    assert.deepStrictEqual(none, { it: null })
  })

layer(liveLayer, { excludeTestServices: true })("the driver, as the service configures it", (it) => {
  it.effect("returns every value of every type in use, alone and in an array with nulls", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (const check of [
        roundTrip(sql, texts, columns.text, value.text, "text"),
        roundTrip(sql, instants, columns.timestamptz, value.timestamptz, "timestamptz"),
        roundTrip(sql, bigs, columns.numeric, value.numeric, "numeric(78,0)"),
        roundTrip(sql, int8s, columns.int8, value.int8, "bigint"),
        roundTrip(sql, [0, -5, 2_147_483_647], columns.int4, value.int4, "integer"),
        roundTrip(sql, bytes, columns.bytea, value.bytea, "bytea")
      ]) yield* check
      const versions = [0, 1, 65_535, 65_536, 2 ** 47 + 3, 2 ** 48 - 1].map((ctid) => ({ ctid, xmin: ctid % 2 ** 32 }))
      const found = yield* sql`SELECT ctid, xmin, ctid::text AS id, xmin::text AS transaction
        FROM ${columnList(rowVersion).unnest(versions)}`
      const printed = ({ ctid, xmin }: RowVersion) =>
        ({ id: `(${Math.floor(ctid / 65_536)},${ctid % 65_536})`, transaction: `${xmin}` })
      assert.deepStrictEqual(found, versions.map((version) => ({ ...version, ...printed(version) })))
      const [flags] = yield* sql`
        SELECT ${columns.bool([true, false, null])} AS bools, ${columns.int2([0, 15])} AS lanes`
      assert.deepStrictEqual(flags, { bools: [true, false, null], lanes: [0, 15] })
      const json = { b: [1, null, { __proto__: null, x: "ü" }], a: "1" }
      const [stored] = yield* sql`SELECT ${JSON.stringify(json)}::jsonb AS some_json`
      assert.deepStrictEqual(stored, { someJson: json })
    }))

  it.effect.prop("reads and writes integers of any size as PostgreSQL prints them", [Schema.Array(signed)], ([all]) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const values = all.map(({ digits, isNegative }) => {
        const value = digits.reduce((sum, digit) => sum * 10_000n + BigInt(digit), 0n)
        return isNegative ? -value : value
      })
      const rows = yield* sql`SELECT n, n::text AS printed FROM unnest(${columns.numeric(values)}) AS t(n)`
      assert.deepStrictEqual(rows, values.map((n) => ({ n, printed: `${n}` })))
    }))

  it.effect.prop("reads and writes every instant of the wire exactly", [Schema.Array(Instant)], ([instants]) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql`SELECT at, (extract(epoch FROM at) * 1000)::numeric(20, 0) AS millis
        FROM unnest(${columns.timestamptz(instants)}) AS t(at)`
      assert.deepStrictEqual(rows, instants.map((at) => ({ at, millis: BigInt(at) })))
    }))

  it.effect("fails for a value that its type here does not have", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (const one of ["1.5::numeric", "'NaN'::numeric", "'-Infinity'::numeric", "'infinity'::timestamptz"]) {
        assert.strictEqual((yield* Effect.flip(sql`SELECT ${sql.literal(one)}`))._tag, "SqlError", one)
      }
      for (const one of [Number.NaN, Infinity, 0.5]) {
        const error = yield* Effect.flip(sql`SELECT ${value.timestamptz(one)}`)
        assert.strictEqual(error._tag, "SqlError", `${one}`)
      }
      assert.deepStrictEqual(yield* sql`SELECT 1 AS one`, [{ one: 1 }])
    }))

  it.effect("retries a transaction that PostgreSQL rolled back because of a deadlock", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE pair (id integer PRIMARY KEY, n integer NOT NULL)`
      yield* sql`INSERT INTO pair VALUES (1, 0), (2, 0)`
      const holding = [yield* Deferred.make<void>(), yield* Deferred.make<void>()] as const
      // each transaction locks one row before it locks the row of the other; the one that is retried runs last
      const bump = (first: 1 | 2, second: 1 | 2) =>
        Database.transaction(Effect.gen(function*() {
          yield* sql`UPDATE pair SET n = n + 1 WHERE id = ${first}`
          yield* Deferred.succeed(first === 1 ? holding[0] : holding[1], undefined)
          yield* Deferred.await(second === 1 ? holding[0] : holding[1])
          yield* sql`UPDATE pair SET n = n + 1 WHERE id = ${second}`
        }))
      yield* Effect.all([bump(1, 2), bump(2, 1)], { concurrency: 2 })
      assert.deepStrictEqual(yield* sql`SELECT n FROM pair`, [{ n: 2 }, { n: 2 }])
    }))

  it.effect("repeats a transaction whose prepared statement has another result since a column was added", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE TABLE grown AS SELECT 1 AS one`
      const read = Database.transaction(sql`SELECT * FROM grown`)
      // prepared in each session
      yield* Effect.all(Array.from({ length: 30 }, () => read), { concurrency: 10 })
      yield* sql`ALTER TABLE grown ADD COLUMN two integer NOT NULL DEFAULT 2`
      for (const rows of yield* Effect.all(Array.from({ length: 30 }, () => read), { concurrency: 10 })) {
        assert.deepStrictEqual(rows, [{ one: 1, two: 2 }])
      }
    }))

  it.effect("fails with Unavailable where the connection is lost before the transaction is rolled back", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const session = yield* Deferred.make<number>()
      const ended = yield* Deferred.make<void>()
      const refused = Database.transaction(Effect.gen(function*() {
        const [row] = yield* sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`
        yield* Deferred.succeed(session, row?.pid ?? 0)
        yield* Deferred.await(ended)
        return yield* new ClockCannotGoBack({ now: instant(0), message: "no" })
      }))
      const end = Effect.gen(function*() {
        yield* sql`SELECT pg_terminate_backend(${value.int4(yield* Deferred.await(session))}, 5000)`
        yield* Deferred.succeed(ended, undefined)
      })
      const [exit] = yield* Effect.all([Effect.exit(refused), end], { concurrency: 2 })
      assert.strictEqual((yield* Effect.flip(exit))._tag, "Unavailable")
    }))

  it.effect("makes the server end the sessions of vanished clients and idle transactions", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const names = [
        "client_connection_check_interval",
        "idle_in_transaction_session_timeout",
        "statement_timeout",
        "tcp_keepalives_count",
        "tcp_keepalives_idle",
        "tcp_keepalives_interval",
        "tcp_user_timeout"
      ]
      const settings = yield* sql<{ setting: string }>`SELECT current_setting(name) AS setting
        FROM unnest(${columns.text(names)}) WITH ORDINALITY AS t(name, place) ORDER BY place`
      assert.deepStrictEqual(settings.map(({ setting }) => setting), ["1s", "5s", "30s", "3", "30", "10", "30000"])
    }))

  it.effect("reads what is committed, compiles nothing and commits to the disk, whatever the defaults are", () =>
    Effect.gen(function*() {
      const url = yield* makeEmpty
      const settings = Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql.withTransaction(sql<{ isolation: string; jit: string; commit: string }>`
          SELECT current_setting('transaction_isolation') AS isolation, current_setting('jit') AS jit,
            current_setting('synchronous_commit') AS commit`)
        const name = sql.literal(new URL(Redacted.value(url)).pathname.slice(1))
        yield* sql`ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`
        yield* sql`ALTER DATABASE ${name} SET jit = on`
        yield* sql`ALTER DATABASE ${name} SET synchronous_commit = off`
        return row
      })
      for (const _ of ["before", "after"]) {
        const fresh = Database.layer({ url, poolSize: 1, applicationName: "test" })
        const found = yield* Effect.provide(settings, Layer.fresh(fresh))
        assert.deepStrictEqual(found, { isolation: "read committed", jit: "off", commit: "on" })
      }
    }))

  it.effect("lets a transaction that says so take any time, whatever the defaults are", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const timeouts = sql.literal(`(SELECT * FROM pg_settings WHERE name IN ('statement_timeout',
        'idle_in_transaction_session_timeout', 'transaction_timeout')) AS timeouts`)
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`SELECT set_config(name, '1min', true) FROM ${timeouts}`
        const found = Effect.map(
          sql<{ name: string; setting: string }>`SELECT name, setting FROM ${timeouts}`,
          (rows) => new Map(rows.map(({ name, setting }) => [name, setting]))
        )
        yield* takeTime(700)
        const limited = yield* found
        assert.strictEqual(limited.get("statement_timeout"), "700")
        assert.strictEqual(limited.get("idle_in_transaction_session_timeout"), "60000")
        // which is not there before PostgreSQL 17
        assert.strictEqual(limited.get("transaction_timeout") ?? "0", "0")
        yield* takeTime(0)
        assert.deepStrictEqual([...new Set((yield* found).values())], ["0"])
      }))
    }))

  it.effect("keeps what PostgreSQL said of an error that can end by itself, in one line and without its detail", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      for (const code of ["53100", "53200", "53300", "57P01", "58030", "25006", "40P01"]) {
        const raise = sql.unsafe(`DO $$ BEGIN
          RAISE EXCEPTION E'no space\\nleft' USING ERRCODE = '${code}', DETAIL = 'hidden', HINT = 'hidden';
        END $$`)
        const error = yield* Effect.flip(Database.withinRequestDeadline(raise))
        assert.deepInclude(serverErrorOf(error), { code, message: `no space left (${code})` })
        assert.notInclude(inspect(error, { depth: 9, showHidden: true }), "hidden")
        const encoded = Schema.encodeUnknownSync(Unavailable)(error)
        const message = "The service cannot reach its database; send the same request again"
        assert.deepStrictEqual(encoded, { _tag: "Unavailable", message })
      }
    }))

  it.effect("keeps why PostgreSQL refused a connection, and no address where nothing answers", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const url = new URL(Redacted.value(yield* makeEmpty))
      const role = `none_${process.pid}`
      yield* Effect.acquireRelease(
        sql.unsafe(`CREATE ROLE ${role} LOGIN PASSWORD '${role}' CONNECTION LIMIT 0`),
        () => Effect.orDie(sql.unsafe(`DROP ROLE ${role}`))
      )
      const ask = (more: Partial<URL>) => {
        const address = Redacted.make(Object.assign(new URL(url), more).href)
        const pool = Database.layer({ url: address, poolSize: 1, applicationName: "test" })
        const one = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1`)
        return Effect.flip(Database.withinRequestDeadline(Effect.provide(one, pool)))
      }
      const refused = yield* ask({ username: role, password: role })
      assert.strictEqual(serverErrorOf(refused)?.message, `too many connections for role "${role}" (53300)`)
      const away = yield* ask({ port: "1" })
      assert.strictEqual(away._tag, "Unavailable")
      assert.isUndefined(serverErrorOf(away))
    }).pipe(Effect.scoped))

  it.effect("turns any other SQL error into a defect", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const exit = yield* Effect.exit(Database.withinRequestDeadline(sql`SELECT nothing FROM nowhere`))
      assert.isTrue(exit._tag === "Failure" && exit.cause.reasons.every((reason) => reason._tag === "Die"))
    }))
})
