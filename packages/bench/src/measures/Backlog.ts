import * as Database from "@card-rewards/core/Database"
import { Effect, type Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { performance } from "node:perf_hooks"
import { type Sample, verify, Void } from "../Measure.ts"
import type { Running } from "../Processes.ts"
import { Server } from "../Server.ts"

/** How often it is asked whether the work is done. */
const pollMillis = 20
const patienceSeconds = 900

/** Statements over a contestant's database, from the measuring process. */
export const onDatabase = <A, E, R>(
  url: Redacted.Redacted,
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Void, Exclude<R, SqlClient.SqlClient>> =>
  effect.pipe(
    Effect.provide(Database.layer({ url, poolSize: 1, applicationName: "card-rewards bench" })),
    Effect.mapError((error) => error instanceof Void ? error : new Void({ message: `${error}` }))
  ) as never

/** Times how long a worker takes for work that appears all at once. `isDone` asks the database. */
export const workOff = Effect.fnUntraced(function*<R>(options: {
  readonly name: string
  readonly url: Redacted.Redacted
  readonly running: ReadonlyArray<Running>
  readonly count: number
  readonly add: Effect.Effect<void, Void, R>
  readonly isDone: (sql: SqlClient.SqlClient) => Effect.Effect<boolean, SqlError.SqlError>
}) {
  const server = yield* Server
  const used = Effect.gen(function*() {
    const each = yield* Effect.forEach(options.running, ({ cpuMicros }) => cpuMicros)
    return { worker: each.reduce((sum, micros) => sum + micros, 0), postgres: yield* server.cpuMicros }
  })
  yield* options.add
  const before = yield* used
  const startedAt = performance.now()
  yield* onDatabase(
    options.url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      while (!(yield* options.isDone(sql))) {
        if (performance.now() - startedAt > patienceSeconds * 1_000) {
          return yield* new Void({ message: `${options.name} does not finish` })
        }
        yield* Effect.sleep(pollMillis)
      }
    })
  )
  const seconds = (performance.now() - startedAt) / 1_000
  const after = yield* used
  return {
    "events/s": options.count / seconds,
    "worker CPU µs/event": (after.worker - before.worker) / options.count,
    "PostgreSQL CPU µs/event": (after.postgres - before.postgres) / options.count
  } satisfies Sample
})

/** Rows of a table, verified. */
export const verifyRows = (url: Redacted.Redacted, name: string, table: string, expected: number) =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ count: number }>`SELECT count(*)::int AS count FROM ${sql(table)}`
      yield* verify(`${name}: rows of ${table}`, row?.count ?? 0, expected)
    })
  )
