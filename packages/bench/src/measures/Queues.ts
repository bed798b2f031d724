import { Effect, Redacted, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { PgBoss } from "pg-boss"
import { InvalidRun, verify } from "../Measure.ts"
import type { EventKey } from "../peers/EventWork.ts"
import { onDatabase } from "./Backlog.ts"

/** The queue of a peer, filled and read from outside its worker. */
export interface Queue {
  /** Whether the worker has created its tables and queues. */
  readonly isReady: (sql: SqlClient.SqlClient) => Effect.Effect<boolean, SqlError.SqlError>
  /** Adds a job for each event in one statement. */
  readonly add: (url: Redacted.Redacted, task: string, keys: ReadonlyArray<EventKey>) => Effect.Effect<void, InvalidRun>
  readonly isDone: (sql: SqlClient.SqlClient) => Effect.Effect<boolean, SqlError.SqlError>
  /** Verifies that `done` jobs in all have succeeded. */
  readonly checkDone: (url: Redacted.Redacted, name: string, done: number) => Effect.Effect<void, InvalidRun>
}

export const graphileQueue: Queue = {
  isReady: (sql) => isTrue(sql`SELECT count(*) = 2 AS "is" FROM graphile_worker._private_tasks
    WHERE identifier IN ('event', 'nothing')`),
  add: (url, task, keys) =>
    onDatabase(
      url,
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const jobs = JSON.stringify(keys.map((payload) => ({ identifier: task, payload })))
        yield* sql`SELECT count(*) FROM graphile_worker.add_jobs(
          (SELECT array_agg(job) FROM json_populate_recordset(null::graphile_worker.job_spec, ${jobs}::json) AS job))`
      })
    ),
  isDone: (sql) => Effect.map(sql`SELECT FROM graphile_worker._private_jobs LIMIT 1`, (rows) => rows.length === 0),
  // graphile-worker deletes a job that succeeded; `isDone` fails to become true where one has failed
  checkDone: () => Effect.void
}

export const bossQueue: Queue = {
  isReady: (sql) => isTrue(sql`SELECT count(*) = 2 AS "is" FROM pgboss.queue WHERE name IN ('event', 'nothing')`),
  add: (url, task, keys) =>
    Effect.tryPromise({
      try: async () => {
        const boss = new PgBoss({ connectionString: Redacted.value(url), max: 1, schedule: false, supervise: false })
        await boss.start()
        await boss.insert(task, keys.map((data) => ({ data })))
        await boss.stop({ graceful: false })
      },
      catch: (error) => new InvalidRun({ message: `pg-boss does not accept jobs: ${error}` })
    }),
  isDone: (sql) =>
    Effect.map(sql`SELECT FROM pgboss.job WHERE state < 'completed' LIMIT 1`, (rows) => rows.length === 0),
  checkDone: (url, name, done) =>
    onDatabase(
      url,
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const [row] = yield* sql<{ count: number }>`
          SELECT count(*)::int AS count FROM pgboss.job WHERE state = 'completed' AND name IN ('event', 'nothing')`
        yield* verify(`${name}: completed jobs`, row?.count ?? 0, done)
      })
    )
}

const isTrue = (query: Effect.Effect<ReadonlyArray<object>, SqlError.SqlError>) =>
  Effect.map(query, ([row]) => row !== undefined && "is" in row && row.is === true)

/** Waits until a peer's worker is ready. */
export const awaitReady = (url: Redacted.Redacted, queue: Queue): Effect.Effect<void, InvalidRun> =>
  onDatabase(
    url,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* queue.isReady(sql).pipe(
        Effect.catch(() => Effect.succeed(false)),
        Effect.repeat({ until: (isReady) => isReady, schedule: Schedule.spaced("50 millis") }),
        Effect.timeout("60 seconds"),
        Effect.mapError(() => new InvalidRun({ message: "a peer's worker does not start" }))
      )
    })
  )
