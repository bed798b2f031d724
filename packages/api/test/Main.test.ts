import * as Database from "@card-rewards/core/Database"
import { until } from "@card-rewards/testing/Polling"
import { start } from "@card-rewards/testing/Processes"
import { secretsKeyText } from "@card-rewards/testing/Secrets"
import { waitingFor } from "@card-rewards/testing/TableLocks"
import { TestApi } from "@card-rewards/testing/TestApi"
import type { Running } from "@card-rewards/testing/TestProcess"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { connect } from "node:net"

const variables = Effect.map(TestApi, ({ databaseUrl }) => ({
  DATABASE_URL: Redacted.value(databaseUrl),
  SECRETS_KEY: secretsKeyText,
  PORT: "0",
  LOG_FORMAT: "json"
}))

const portOf = ({ output }: Running) =>
  Effect.sync(() => Number(/Listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(output())?.[1] ?? 0)).pipe(
    Effect.delay("50 millis"),
    Effect.repeat({ until: (port) => port > 0, times: 1_200 })
  )

/** Prints the modules of Node that the process has loaded, when it exits. */
const printModules = "data:text/javascript,process.on('exit', () => console.log(process.moduleLoadList.join()))"

/** Nobody listens there any more. */
const refuses = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = connect(port, "127.0.0.1")
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed(false))
    })
    socket.once("error", () => resume(Effect.succeed(true)))
  })

layer(TestApi.layer(), { excludeTestServices: true })("main", (it) => {
  it.effect("says where it listens, serves without loading Node's fetch, and stops on SIGTERM", () =>
    Effect.gen(function*() {
      const child = yield* start("api", yield* variables, { preload: printModules })
      const port = yield* portOf(child)
      assert.isAbove(port, 0, child.output())
      const health = yield* Effect.promise(() => fetch(`http://127.0.0.1:${port}/health`))
      assert.strictEqual(health.status, 204)
      yield* child.send("SIGTERM")
      yield* child.exit
      assert.notInclude(child.output(), secretsKeyText)
      assert.include(child.output(), "NativeModule http,")
      assert.notInclude(child.output(), "NativeModule internal/deps/undici/undici")
    }).pipe(Effect.scoped))

  it.effect("finishes what is in flight at SIGTERM, and lets an idle connection not hold it", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      yield* api.send("PUT", "/v1/users/slow", { json: {} })
      const stopInFlight = Effect.gen(function*() {
        const child = yield* start("api", yield* variables)
        const port = yield* portOf(child)
        const idle = connect(port, "127.0.0.1")
        idle.on("error", () => {})
        idle.write("GET /health HTTP/1.1\r\n")
        const answer = yield* sql.withTransaction(Effect.gen(function*() {
          yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
          yield* sql`LOCK TABLE users IN ACCESS EXCLUSIVE MODE`
          const sent = fetch(`http://127.0.0.1:${port}/v1/users/slow`, { headers: { "x-api-key": api.key } })
          yield* until("a waiting request", waitingFor("users"), (rows) => rows.length === 1, 10)
          yield* child.send("SIGTERM")
          yield* until("refused", refuses(port), Boolean, 10)
          return () => sent
        }))
        return { child, idle, status: (yield* Effect.promise(answer)).status }
      })
      // the request waits 4.5 s for the table, and on a machine that stands still it gets it later
      const { child, idle, status } = yield* Effect.repeat(stopInFlight, {
        until: ({ status }) => status !== 503,
        times: 2
      })
      assert.strictEqual(status, 200)
      const code = yield* Effect.timeoutOption(child.exit, "14 seconds")
      idle.destroy()
      assert.strictEqual(code._tag, "Some")
    }).pipe(Effect.scoped))

  it.effect("a bad value is one clear line and exit 1", () =>
    Effect.gen(function*() {
      const child = yield* start("api", { ...(yield* variables), SECRETS_KEY: "aGlkZGVu" })
      assert.strictEqual(yield* child.exit, 1)
      assert.include(child.output(), "SECRETS_KEY")
      assert.strictEqual(child.output().trim().split("\n").length, 1, child.output())
      assert.notInclude(child.output(), "aGlkZGVu")
    }).pipe(Effect.scoped))

  it.effect("vaults of another environment are one clear line and exit 1", () =>
    Effect.gen(function*() {
      const child = yield* start("api", { ...(yield* variables), ENVIRONMENT: "production" })
      assert.strictEqual(yield* child.exit, 1)
      const line = "card-rewards api: ENVIRONMENT is production, and the vaults of the database are of sandbox"
      assert.strictEqual(child.output().trim().split("\n").at(-1), line)
    }).pipe(Effect.scoped))

  it.effect("a newer schema is one clear line and exit 1", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const newer = Database.schemaVersion + 1
      yield* sql`INSERT INTO effect_sql_migrations (migration_id, name) VALUES (${newer}, 'future')`
      const child = yield* start("api", yield* variables)
      const code = yield* child.exit
      yield* sql`DELETE FROM effect_sql_migrations WHERE migration_id = ${newer}`
      assert.strictEqual(code, 1)
      assert.include(child.output(), `newer than ${Database.schemaVersion}`)
    }).pipe(Effect.scoped))
})
