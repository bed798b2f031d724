import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { EmbeddedPostgres } from "@card-rewards/dev-postgres/EmbeddedPostgres"
import { clearings, type Ledger, newLedger, spend } from "@card-rewards/e2e/Load"
import { healthy, query, untilRows } from "@card-rewards/e2e/Setting"
import { seedIntegrator, provision } from "@card-rewards/e2e/World"
import { until } from "@card-rewards/testing/Polling"
import { admin, folder, freePort, start, variables } from "@card-rewards/testing/Processes"
import * as RawClient from "@card-rewards/testing/RawClient"
import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { execFileSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"

/** Starts a PostgreSQL that archives its log, in a folder that remains after its end. Returns its address. */
const server = (dataDir: string, archive: string, settings: Readonly<Record<string, string>> = {}) =>
  EmbeddedPostgres.layer({
    dataDir,
    settings: {
      wal_level: "replica",
      archive_mode: "on",
      archive_command: `test ! -f ${archive}/%f && cp %p ${archive}/%f`,
      ...settings
    }
  })

const addressOf = Effect.map(EmbeddedPostgres, ({ url }) => Redacted.value(url))

/** The service over a database, until the scope closes. */
const service = Effect.fnUntraced(function*(url: string, apiKey: string) {
  const port = yield* freePort
  const env = variables(url, { PORT: `${port}` })
  const api = yield* start("api", env)
  yield* start("worker", env)
  yield* healthy(port, api)
  return { env, client: RawClient.make({ baseUrl: () => `http://127.0.0.1:${port}`, apiKey }) }
})

/** Copies a folder with its owners: the server refuses a data directory of another user. */
const copy = (from: string, to: string) => execFileSync("cp", ["-a", from, to])

const write = (cluster: string, name: string, text: string) => {
  writeFileSync(join(cluster, name), text)
  const { gid, uid } = statSync(cluster)
  chownSync(join(cluster, name), uid, gid)
}

/** Copies the running cluster as a base backup: between its start and stop, in one session. */
const backUp = (url: string, cluster: string, target: string) =>
  Effect.scoped(Effect.gen(function*() {
    const sql = yield* AdminSql.connect(Redacted.make(url))
    yield* sql`SELECT pg_backup_start('base', true)::text`
    copy(cluster, target)
    rmSync(join(target, "postmaster.pid"))
    const log = join(target, "pg_wal")
    for (const segment of readdirSync(log)) if (/^[0-9A-F]{24}/u.test(segment)) rmSync(join(log, segment))
    const [label] = yield* sql<{ labelfile: string }>`SELECT labelfile FROM pg_backup_stop(true)`
    write(target, "backup_label", label?.labelfile ?? "")
  }))

const stored = (url: string) =>
  Effect.map(query<{ id: string }>(url, "SELECT external_transaction_id AS id FROM spend_events"), (rows) =>
    rows.map(({ id }) => id).toSorted())

const sentIn = ({ spends }: Ledger) => [...spends.values()].map(({ externalTransactionId: id }) => id).toSorted()

it.live("a base backup and the archived log restore the time before a mistake; repeated events complete it", () =>
  Effect.gen(function*() {
    const parent = yield* folder
    chmodSync(parent, 0o711)
    const [dataDir, archive, backup] = [join(parent, "data"), join(parent, "archive"), join(parent, "backup")]
    mkdirSync(archive)
    // where the test runs as root, the server runs as another user
    chmodSync(archive, 0o777)
    const cluster = () => readFileSync(join(dataDir, "location"), "utf8")

    const before = yield* Effect.gen(function*() {
      const url = yield* addressOf
      const apiKey = yield* provision(variables(url))
      const { client } = yield* service(url, apiKey)
      const ledger = newLedger(yield* seedIntegrator(client))
      yield* spend(client, ledger, clearings(30, ledger.clockMillis))
      yield* backUp(url, cluster(), backup)
      yield* spend(client, ledger, clearings(30, ledger.clockMillis))
      yield* query(url, "SELECT pg_create_restore_point('before_the_mistake')::text")
      const kept = sentIn(ledger)
      yield* spend(client, ledger, clearings(30, ledger.clockMillis))
      yield* query(url, "DROP TABLE rewards CASCADE")
      const [full] = yield* query<{ name: string }>(url, "SELECT pg_walfile_name(pg_switch_wal()) AS name")
      const archived = `SELECT FROM pg_stat_archiver WHERE last_archived_wal >= '${full?.name}'`
      yield* untilRows("archived", url, archived, ({ length }) => length === 1)
      return { apiKey, kept, ledger, location: cluster() }
    }).pipe(Effect.scoped, Effect.provide(server(dataDir, archive)))

    // the server ends a moment after its last user
    const isGone = Effect.sync(() => !existsSync(join(before.location, "postmaster.pid")))
    yield* until("stopped", isGone, (gone) => gone)
    rmSync(before.location, { recursive: true })
    copy(backup, before.location)
    write(before.location, "recovery.signal", "")
    const restored = server(dataDir, archive, {
      restore_command: `cp ${archive}/%f %p`,
      recovery_target_name: "before_the_mistake",
      recovery_target_action: "promote"
    })
    yield* Effect.gen(function*() {
      const url = yield* addressOf
      yield* untilRows("promoted", url, "SELECT WHERE NOT pg_is_in_recovery()", ({ length }) => length === 1)
      assert.deepStrictEqual(yield* stored(url), before.kept)
      assert.include(yield* admin(variables(url), "audit"), "holds")
      const { client } = yield* service(url, before.apiKey)
      // the integrator repeats the events since the restored time; those that were restored are duplicates
      yield* spend(client, before.ledger, [...before.ledger.spends.values()])
      assert.deepStrictEqual(yield* stored(url), sentIn(before.ledger))
      yield* untilRows("rewarded", url, "SELECT FROM rewards", ({ length }) => length === before.ledger.spends.size)
      assert.include(yield* admin(variables(url), "audit"), "holds")
    }).pipe(Effect.scoped, Effect.provide(restored))
  }).pipe(Effect.scoped))
