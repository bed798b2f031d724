import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { Context, Effect, Layer, type Redacted, type Scope, Semaphore } from "effect"
import type { SqlError } from "effect/sql"
import { randomUUID } from "node:crypto"
import { cpuMicrosWithChildren, statOf } from "./Proc.ts"

/** The content of a database before the first turn. */
export interface Fill {
  /** Equal for equal content: it names the template database. */
  readonly name: string
  /** The content of the database before `fill`; it is empty without. */
  readonly base?: Fill
  readonly fill: (url: Redacted.Redacted) => Effect.Effect<void>
}

/** The PostgreSQL server of the run, which all competitors share. */
export class Server extends Context.Service<Server, {
  /** A new database with the schema and this content, copied from a template; dropped with the scope. */
  readonly database: (fill: Fill) => Effect.Effect<Redacted.Redacted, never, Scope.Scope>
  /** The version, and the settings that matter for durability and speed, as `name = value`. */
  readonly describe: Effect.Effect<ReadonlyArray<string>>
  /** The folder of its data. */
  readonly dataDirectory: string
  /** The server's first process; undefined where there is no `/proc`. */
  readonly postmaster: number | undefined
  /** Microseconds of CPU time that the server's processes have used; 0 where there is no `/proc`. */
  readonly cpuMicros: Effect.Effect<number>
}>()("@card-rewards/bench/Server") {
  /** Uses a running server, by a superuser's address. */
  static readonly layer = (adminUrl: Redacted.Redacted) => Layer.effect(Server, make(adminUrl))
}

const make = Effect.fnUntraced(function*(adminUrl: Redacted.Redacted) {
  const run = randomUUID().slice(0, 8)
  const templates = new Set<string>()
  const oneAtATime = yield* Semaphore.make(1)
  const admin = yield* AdminSql.connect(adminUrl)
  yield* Effect.addFinalizer(() =>
    Effect.forEach(templates, (name) => AdminSql.dropDatabase(admin, name)).pipe(Effect.orDie)
  )
  const [backend] = yield* admin<{ pid: number; dataDirectory: string }>`
    SELECT pg_backend_pid() AS pid, current_setting('data_directory') AS "dataDirectory"`
  const postmaster = backend === undefined ? undefined : statOf(backend.pid)?.parent

  const template: (content: Fill) => Effect.Effect<string, SqlError.SqlError> = Effect.fnUntraced(
    function*({ base, fill, name }: Fill) {
      const database = `bench_${run}_${name}`
      if (templates.has(database)) return database
      yield* AdminSql.createDatabase(admin, database, base && (yield* template(base)))
      templates.add(database)
      yield* fill(AdminSql.withDatabase(adminUrl, database))
      return database
    }
  )

  const database = Effect.fn("Server.database")(function*(fill: Fill) {
    const from = yield* oneAtATime.withPermit(template(fill))
    const name = `bench_${run}_${randomUUID().slice(0, 8)}`
    yield* Effect.acquireRelease(
      AdminSql.createDatabase(admin, name, from),
      () => AdminSql.dropDatabase(admin, name).pipe(Effect.orDie)
    )
    return AdminSql.withDatabase(adminUrl, name)
  }, Effect.orDie)

  const describe = Effect.gen(function*() {
    const rows = yield* admin<{ name: string; setting: string }>`
      SELECT name, current_setting(name) AS setting FROM pg_settings
      WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers',
        'max_wal_size', 'max_connections', 'huge_pages_status') ORDER BY name`
    return rows.map(({ name, setting }) => `${name} = ${setting}`)
  }).pipe(Effect.orDie)

  const cpuMicros = Effect.sync(() => postmaster === undefined ? 0 : cpuMicrosWithChildren(postmaster))

  return Server.of({ database, describe, dataDirectory: backend?.dataDirectory ?? "", postmaster, cpuMicros })
})
