import * as Database from "@card-rewards/core/Database"
import { Effect, type Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { performance } from "node:perf_hooks"
import { type Contestant, type Sample, verify, Void } from "../Measure.ts"
import type { Running } from "../Processes.ts"
import type { Server } from "../Server.ts"
import { type Senders, store } from "../SpendEvents.ts"
import { used } from "./Used.ts"

/** How often it is asked whether the work is done, where nothing else is said. */
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
  readonly isDone: (sql: SqlClient.SqlClient) => Effect.Effect<boolean, SqlError.SqlError | Void>
  readonly pollMillis?: number
}) {
  yield* options.add
  const before = yield* used(options.running)
  const startedAt = performance.now()
  yield* onDatabase(
    options.url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      while (!(yield* options.isDone(sql))) {
        if (performance.now() - startedAt > patienceSeconds * 1_000) {
          return yield* new Void({ message: `${options.name} does not finish` })
        }
        yield* Effect.sleep(options.pollMillis ?? pollMillis)
      }
    })
  )
  const seconds = (performance.now() - startedAt) / 1_000
  const after = yield* used(options.running)
  return {
    "events/s": options.count / seconds,
    "worker CPU µs/event": (after.processes - before.processes) / options.count,
    "PostgreSQL CPU µs/event": (after.postgres - before.postgres) / options.count
  } satisfies Sample
})

/** Whether no stored event waits for the service's worker. */
export const isQueueEmpty = (sql: SqlClient.SqlClient): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.map(sql`SELECT FROM spend_event_queue LIMIT 1`, (rows) => rows.length === 0)

/** The service's worker with clearings that appear at once, as many in each turn. */
export const backlog = (options: {
  readonly name: string
  readonly url: Redacted.Redacted
  readonly running: ReadonlyArray<Running>
  readonly senders: Senders
  readonly count: number
  /** Verifies the outcomes of so many events. */
  readonly checked: (done: number) => Effect.Effect<void, Void>
}): Contestant<Server> => {
  const { checked, count, name, running, senders, url } = options
  let done = 0
  return {
    name,
    turn: Effect.fnUntraced(function*(round: number) {
      const add = onDatabase(url, store(senders, `r${round}`, count))
      const sample = yield* workOff({ name, url, running, count, add, isDone: isQueueEmpty })
      done += count
      yield* checked(done)
      return sample
    })
  }
}

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
