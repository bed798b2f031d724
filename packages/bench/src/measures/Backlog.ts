import * as Database from "@card-rewards/core/Database"
import { Effect, type Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { performance } from "node:perf_hooks"
import { type Competitor, InvalidRun, type Sample, verify } from "../Measure.ts"
import type { Running } from "../Processes.ts"
import type { Server } from "../Server.ts"
import { type Senders, store } from "../SpendEvents.ts"
import { cpuUsage } from "./CpuUsage.ts"

/** Pause between two questions whether the work is done, unless a measure says otherwise. */
const defaultPollMillis = 20
const timeoutSeconds = 900

/** Runs statements on a competitor's database from this process, with the service's own client. */
export const onDatabase = <A, E, R>(
  url: Redacted.Redacted,
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, InvalidRun, Exclude<R, SqlClient.SqlClient>> =>
  effect.pipe(
    Effect.provide(Database.layer({ url, poolSize: 1, applicationName: "card-rewards bench" })),
    Effect.mapError((error) => error instanceof InvalidRun ? error : new InvalidRun({ message: `${error}` }))
  ) as never

/**
 * Adds work all at once and measures how long running workers take for it. `isDone` asks the database, every
 * `pollMillis`. Returns the figures per event.
 */
export const workOff = Effect.fnUntraced(function*<R>(options: {
  readonly name: string
  readonly url: Redacted.Redacted
  readonly running: ReadonlyArray<Running>
  readonly count: number
  readonly add: Effect.Effect<void, InvalidRun, R>
  readonly isDone: (sql: SqlClient.SqlClient) => Effect.Effect<boolean, SqlError.SqlError | InvalidRun>
  readonly pollMillis?: number
}) {
  yield* options.add
  const before = yield* cpuUsage(options.running)
  const startedAt = performance.now()
  yield* onDatabase(
    options.url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      while (!(yield* options.isDone(sql))) {
        if (performance.now() - startedAt > timeoutSeconds * 1_000) {
          return yield* new InvalidRun({ message: `${options.name} does not finish within ${timeoutSeconds} s` })
        }
        yield* Effect.sleep(options.pollMillis ?? defaultPollMillis)
      }
    })
  )
  const seconds = (performance.now() - startedAt) / 1_000
  const after = yield* cpuUsage(options.running)
  return {
    "events/s": options.count / seconds,
    "worker CPU µs/event": (after.processes - before.processes) / options.count,
    "PostgreSQL CPU µs/event": (after.postgres - before.postgres) / options.count
  } satisfies Sample
})

/** The stored events that wait for a worker of the service. */
export interface EventQueue {
  readonly store: (senders: Senders, prefix: string, count: number) => Effect.Effect<void, InvalidRun>
  readonly isEmpty: (sql: SqlClient.SqlClient) => Effect.Effect<boolean, SqlError.SqlError | InvalidRun>
}

/** The queue of a database with this checkout's schema. */
export const eventQueue = (url: Redacted.Redacted): EventQueue => ({
  store: (senders, prefix, count) => onDatabase(url, store(senders, prefix, count)),
  isEmpty: isQueueEmpty
})

/** Whether the worker has processed every stored event. */
export const isQueueEmpty = (sql: SqlClient.SqlClient): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.map(sql`SELECT FROM spend_event_queue LIMIT 1`, (rows) => rows.length === 0)

/** A worker of the service whose turn is a backlog of `count` clearings that appear at once. */
export const backlog = (options: {
  readonly name: string
  readonly url: Redacted.Redacted
  readonly running: ReadonlyArray<Running>
  readonly senders: Senders
  readonly count: number
  readonly queue?: EventQueue
  /** Verifies the rows that processing has left, by the number of events since the start. */
  readonly checked: (done: number) => Effect.Effect<void, InvalidRun>
}): Competitor<Server> => {
  const { checked, count, name, queue = eventQueue(options.url), running, senders, url } = options
  let done = 0
  return {
    name,
    turn: Effect.fnUntraced(function*(round: number) {
      const add = queue.store(senders, `r${round}`, count)
      const sample = yield* workOff({ name, url, running, count, add, isDone: queue.isEmpty })
      done += count
      yield* checked(done)
      return sample
    })
  }
}

/** Verifies the number of rows of a table. */
export const verifyRows = (url: Redacted.Redacted, name: string, table: string, expected: number) =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ count: number }>`SELECT count(*)::int AS count FROM ${sql(table)}`
      yield* verify(`${name}: rows of ${table}`, row?.count ?? 0, expected)
    })
  )
