import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { Context, Effect, Layer, type Redacted, type Scope, Semaphore } from "effect"
import type { SqlError } from "effect/sql"
import { randomUUID } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"

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
  const [backend] = yield* admin<{ pid: number }>`SELECT pg_backend_pid() AS pid`
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
        'max_wal_size', 'max_connections') ORDER BY name`
    return rows.map(({ name, setting }) => `${name} = ${setting}`)
  }).pipe(Effect.orDie)

  const cpuMicros = Effect.sync(() => postmaster === undefined ? 0 : cpuOfChildren(postmaster))

  return Server.of({ database, describe, cpuMicros })
})

/** Linux counts the CPU time of ended children in hundredths of a second. */
const tickMicros = 10_000

interface Stat {
  readonly parent: number
  readonly endedChildrenCpuMicros: number
}

/** A process in `/proc`; undefined where it has ended, or where there is no `/proc`. */
const statOf = (pid: number): Stat | undefined => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ").map(Number)
    const at = (index: number) => fields[index] ?? 0
    return {
      parent: at(1),
      endedChildrenCpuMicros: (at(13) + at(14)) * tickMicros
    }
  } catch {
    return undefined
  }
}

const cpuOfChildren = (postmaster: number): number => {
  try {
    const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, "utf8")
    const pids = [postmaster, ...children.trim().split(" ").map(Number)]
    return pids.reduce((sum, pid) => sum + cpuMicrosOf(pid), statOf(postmaster)?.endedChildrenCpuMicros ?? 0)
  } catch {
    return 0
  }
}

/** Microseconds of CPU time that a process has used; 0 where there is no `/proc`. */
export const cpuMicrosOf = (pid: number): number => {
  try {
    const nanosOf = (thread: string) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ", 1)[0])
    return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + nanosOf(thread), 0) / 1_000
  } catch {
    return 0
  }
}

/** Bytes of resident memory of a process; 0 where there is no `/proc`. */
export const residentBytesOf = (pid: number): number => {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}
