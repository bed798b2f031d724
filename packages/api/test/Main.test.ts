import * as Database from "@card-rewards/core/Database"
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { connect } from "node:net"
import { fileURLToPath } from "node:url"
import { TestApi } from "./TestApi.ts"

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url))
const secretsKey = Buffer.alloc(32, 7).toString("base64")

/** Starts the process with these variables alone; it is killed with the test at the latest. */
const start = (env: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [main], { env, stdio: ["ignore", "pipe", "pipe"] })
      const output = { text: "" }
      const exited = once(child, "exit")
      child.stdout.on("data", (chunk) => output.text += chunk)
      child.stderr.on("data", (chunk) => output.text += chunk)
      return {
        output,
        stop: () => child.kill("SIGTERM"),
        kill: () => child.kill("SIGKILL"),
        exit: Effect.map(Effect.promise(() => exited), ([code]): unknown => code)
      }
    }),
    (child) => Effect.sync(child.kill)
  )

const variables = Effect.map(TestApi, ({ databaseUrl }) => ({
  DATABASE_URL: Redacted.value(databaseUrl),
  SECRETS_KEY: secretsKey,
  PORT: "0",
  LOG_FORMAT: "json"
}))

const portOf = (output: { readonly text: string }) =>
  Effect.sync(() => Number(/Listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(output.text)?.[1] ?? 0)).pipe(
    Effect.delay("50 millis"),
    Effect.repeat({ until: (port) => port > 0, times: 200 })
  )

layer(TestApi.layer(), { timeout: "60 seconds", excludeTestServices: true })("main", (it) => {
  it.effect("says where it listens, serves, and stops on SIGTERM", () =>
    Effect.gen(function*() {
      const child = yield* start(yield* variables)
      const port = yield* portOf(child.output)
      assert.isAbove(port, 0, child.output.text)
      const health = yield* Effect.promise(() => fetch(`http://127.0.0.1:${port}/health`))
      assert.strictEqual(health.status, 204)
      child.stop()
      yield* child.exit
      assert.notInclude(child.output.text, secretsKey)
    }).pipe(Effect.scoped))

  it.effect("finishes what is in flight at SIGTERM, and lets an idle connection not hold it", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      const sql = yield* SqlClient.SqlClient
      const child = yield* start(yield* variables)
      const port = yield* portOf(child.output)
      const idle = connect(port, "127.0.0.1")
      idle.on("error", () => {})
      idle.write("GET /health HTTP/1.1\r\n")
      yield* api.send("PUT", "/v1/users/slow", { json: {} })
      const answer = yield* sql.withTransaction(Effect.gen(function*() {
        yield* sql`LOCK TABLE users IN ACCESS EXCLUSIVE MODE`
        const sent = fetch(`http://127.0.0.1:${port}/v1/users/slow`, { headers: { "x-api-key": api.key } })
        yield* Effect.sleep("500 millis")
        child.stop()
        yield* Effect.sleep("500 millis")
        return () => sent
      }))
      assert.strictEqual((yield* Effect.promise(answer)).status, 200)
      const code = yield* Effect.timeoutOption(child.exit, "14 seconds")
      idle.destroy()
      assert.strictEqual(code._tag, "Some")
    }).pipe(Effect.scoped))

  it.effect("a bad value is one clear line and exit 1", () =>
    Effect.gen(function*() {
      const child = yield* start({ ...(yield* variables), SECRETS_KEY: "aGlkZGVu" })
      assert.strictEqual(yield* child.exit, 1)
      assert.include(child.output.text, "SECRETS_KEY")
      assert.strictEqual(child.output.text.trim().split("\n").length, 1, child.output.text)
      assert.notInclude(child.output.text, "aGlkZGVu")
    }).pipe(Effect.scoped))

  it.effect("a newer schema is one clear line and exit 1", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const newer = Database.schemaVersion + 1
      yield* sql`INSERT INTO effect_sql_migrations (migration_id, name) VALUES (${newer}, 'future')`
      const child = yield* start(yield* variables)
      const code = yield* child.exit
      yield* sql`DELETE FROM effect_sql_migrations WHERE migration_id = ${newer}`
      assert.strictEqual(code, 1)
      assert.include(child.output.text, `newer than ${Database.schemaVersion}`)
    }).pipe(Effect.scoped))
})
