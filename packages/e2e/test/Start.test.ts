import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { listen } from "@card-rewards/testing/LoopbackServer"
import { until } from "@card-rewards/testing/Polling"
import { folder, root, type Variables } from "@card-rewards/testing/Processes"
import * as TestProcess from "@card-rewards/testing/TestProcess"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"

/** `npm start` without npm, over an embedded PostgreSQL in `dataDir`. */
const launch = (dataDir: string, env: Variables = {}) =>
  TestProcess.start(["scripts/start.ts"], {
    cwd: root,
    env: { PATH: process.env["PATH"] ?? "", DATA_DIR: dataDir, PORT: "0", ...env }
  })

/** All processes that were started with this folder. */
const processesOf = (dataDir: string): ReadonlyArray<{ readonly pid: number; readonly command: string }> =>
  readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8")
      const isOne = (command + readFileSync(`/proc/${pid}/environ`, "utf8")).includes(dataDir)
      return isOne ? [{ pid: Number(pid), command }] : []
    } catch {
      return []
    }
  })

/** A launcher with its folder and port. */
interface Launched {
  readonly dataDir: string
  readonly port: number
  readonly launcher: TestProcess.Running
}

/** Waits until a launcher says that the service is running. */
const untilRunning = ({ output }: TestProcess.Running) =>
  until("running", Effect.sync(output), (printed) => printed.includes("Card Rewards is running."), 90)

/** Waits for the end of a launcher that is to exit 1 and leave no process; succeeds with its output. */
const refusedBy = (launcher: TestProcess.Running, dataDir: string) =>
  Effect.gen(function*() {
    assert.strictEqual(yield* Effect.timeout(launcher.exit, "30 seconds"), 1, launcher.output())
    // the supervisor of PostgreSQL stops it after the launcher's end
    yield* until("no process", Effect.sync(() => processesOf(dataDir)), ({ length }) => length === 0, 20)
    return launcher.output()
  })

const portInUse = (port: number): string =>
  `Cannot listen on 127.0.0.1:${port} (listen EADDRINUSE: address already in use 127.0.0.1:${port}): ` +
  "set PORT to another port, or to 0 for any free one\n"

/** Runs a statement as the superuser of the embedded PostgreSQL. */
const inPostgres = (dataDir: string, statement: string) =>
  Effect.gen(function*() {
    const postgres = yield* Layer.build(EmbeddedPostgres.layer({ dataDir: join(dataDir, "postgres") }))
    const sql = yield* AdminSql.connect(Context.get(postgres, EmbeddedPostgres).url)
    yield* sql.unsafe(statement)
  }).pipe(Effect.scoped)

/** Makes the schema newer than any that this version knows. */
const makeNewer = `INSERT INTO effect_sql_migrations (migration_id, name)
  SELECT max(migration_id) + 1, 'future' FROM effect_sql_migrations`

/** Statements that neither login may run. */
const forbidden = [
  "UPDATE journal SET amount = 1",
  "DELETE FROM events",
  "ALTER TABLE journal DISABLE TRIGGER ALL",
  "CREATE TABLE other (id int)",
  "SET ROLE card_rewards_admin",
  "SET ROLE postgres"
]
const insufficientPrivilege = "42501"

/** Two launchers with the same port, started at the same time. The first one that ended, and the other one. */
class Pair extends Context.Service<Pair, { readonly refused: Launched; readonly running: Launched }>()("test/Pair") {
  static readonly layer = Layer.effect(
    Pair,
    Effect.gen(function*() {
      const { port } = yield* Effect.scoped(listen(createServer()))
      const starting = Effect.gen(function*() {
        const dataDir = yield* folder
        return { dataDir, port, launcher: yield* launch(dataDir, { PORT: `${port}` }) }
      })
      const [a, b] = [yield* starting, yield* starting]
      const endOf = (one: Launched) => Effect.as(one.launcher.exit, one)
      const refused = yield* Effect.timeout(Effect.raceFirst(endOf(a), endOf(b)), "90 seconds")
      return { refused, running: refused === a ? b : a }
    })
  )
}

describe("npm start", () => {
  it.live("an invalid value of any part's configuration causes one line, exit 1 and no remaining process", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const launcher = yield* launch(dataDir, { WEBHOOK_RETRY_DELAYS: "soon" })
      assert.strictEqual(yield* Effect.timeout(launcher.exit, "30 seconds"), 1, launcher.output())
      assert.strictEqual(
        launcher.output(),
        "card-rewards worker: WEBHOOK_RETRY_DELAYS must be 1 to 50 durations of 1ms to 7d such as 300ms,5s,2m,1h\n"
      )
      assert.deepStrictEqual(processesOf(dataDir), [])
    }).pipe(Effect.scoped))

  it.live("a database that the api refuses causes one line, exit 1 and no remaining process", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const isNewer = /^card-rewards api: The database has schema \d+, newer than \d+, which this version works on\n$/
      const launcher = yield* launch(dataDir)
      yield* untilRunning(launcher)
      const isWorking = (printed: string) => printed.includes("Delivers webhooks as worker")
      yield* until("the worker's start", Effect.sync(launcher.output), isWorking, 90)
      yield* inPostgres(dataDir, makeNewer)
      yield* inPostgres(dataDir, "REVOKE SELECT ON journal FROM card_rewards_api")
      const before = launcher.output().length
      for (const { command, pid } of processesOf(dataDir)) {
        if (command.includes("packages/api")) process.kill(pid, "SIGKILL")
      }
      assert.match((yield* refusedBy(launcher, dataDir)).slice(before), isNewer)
      assert.match(yield* refusedBy(yield* launch(dataDir), dataDir), isNewer)
      const isGranted = "has_table_privilege('card_rewards_api', 'journal', 'SELECT')"
      yield* inPostgres(dataDir, `DO $$ BEGIN ASSERT NOT ${isGranted}, 'a refused start has migrated'; END $$`)
      yield* inPostgres(dataDir, "DELETE FROM effect_sql_migrations WHERE name = 'future'")
      assert.strictEqual(
        yield* refusedBy(yield* launch(dataDir, { ENVIRONMENT: "production" }), dataDir),
        "card-rewards api: ENVIRONMENT is production, and the vaults of the database are of sandbox\n"
      )
    }).pipe(Effect.scoped))
})

layer(Pair.layer, { excludeTestServices: true })("of two with the same port at the same time", (it) => {
  it.effect("one runs, and the other one ends with one line, exit 1 and no remaining process", () =>
    Effect.gen(function*() {
      const { refused, running } = yield* Pair
      assert.strictEqual(yield* refusedBy(refused.launcher, refused.dataDir), portInUse(refused.port))
      yield* untilRunning(running.launcher)
    }))

  it.effect("one uses logins for api and worker that can neither change the journal nor create a table", () =>
    Effect.gen(function*() {
      const { dataDir, launcher } = (yield* Pair).running
      yield* untilRunning(launcher)
      const postgres = yield* Layer.build(EmbeddedPostgres.layer({ dataDir: join(dataDir, "postgres") }))
      const sql = yield* AdminSql.connect(Context.get(postgres, EmbeddedPostgres).url)
      for (const part of ["api", "worker"]) {
        const login = `rewards_${part}`
        // the worker may still be connecting when the api serves already
        const sessions = sql`SELECT DISTINCT usename, rolsuper FROM pg_stat_activity JOIN pg_roles
          ON rolname = usename WHERE application_name = ${`card-rewards ${part}`}`
        const [session, ...others] = yield* until(`${part} is connected`, sessions, ({ length }) => length > 0, 30)
        assert.deepStrictEqual([session, others], [{ usename: login, rolsuper: false }, []])
        yield* sql.unsafe(`SET SESSION AUTHORIZATION ${login}`)
        for (const statement of forbidden) {
          const error = yield* Effect.flip(sql.unsafe(statement))
          assert.propertyVal(error.reason.cause, "code", insufficientPrivilege, statement)
        }
        yield* sql`RESET SESSION AUTHORIZATION`
      }
      yield* launcher.send("SIGTERM")
      assert.strictEqual(yield* Effect.timeout(launcher.exit, "20 seconds"), 130, launcher.output())
    }))
})
