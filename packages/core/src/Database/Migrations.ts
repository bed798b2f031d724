import { Effect, type Redacted, Schedule } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import initial from "../migrations/0001_initial.ts"
import * as Roles from "../Roles.ts"
import { StartRefused } from "../Settings.ts"
import { isSqlError } from "./Errors.ts"
import { layer } from "./Pool.ts"

/** The migrations in order, by their file names; scripts/tidy.ts compares this list with the folder. */
export const migrations = {
  "0001_initial": initial
}

/** The number of the last migration: the schema version that this code requires. */
export const schemaVersion = Object.keys(migrations).length

/** Lock timeout of a migration: requests for the table queue behind its lock, and have a deadline of 4.5 s. */
const lockWaitMillis = 3_000

/** Pause after a lock timeout, in which those requests proceed. */
const lockPauseMillis = 2_000

/** Options of {@link migrate}; tests set them. */
export interface MigrateOptions {
  /** The migrations to apply, in order of their names; {@link migrations} when absent. */
  readonly migrations?: Readonly<Record<string, typeof initial>>
  /** Attempts to get the locks; 24 when absent, which take two minutes. */
  readonly lockTries?: number
}

/**
 * Applies the missing migrations and grants the roles their rights; the login must own the schema. A second concurrent
 * run waits for the first. While other transactions have locked the tables it releases its locks and retries. A
 * migration that fails changes nothing.
 */
export const migrate = Effect.fn("Database.migrate")(function*(url: Redacted.Redacted, options: MigrateOptions = {}) {
  const run = Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const once = sql.withTransaction(Effect.gen(function*() {
      // building an index on a large table may take hours, and so may the wait for a concurrent run
      yield* sql`SET LOCAL statement_timeout = 0`
      yield* sql`SELECT pg_advisory_xact_lock(hashtext('card-rewards migrations'))`
      yield* sql.unsafe(`SET LOCAL lock_timeout = ${lockWaitMillis}`)
      yield* Migrator.make({})({ loader: Migrator.fromRecord(options.migrations ?? migrations) })
      yield* Roles.grant
    }))
    const times = (options.lockTries ?? 24) - 1
    yield* Effect.retry(once, { while: isLocked, times, schedule: Schedule.spaced(lockPauseMillis) })
  }).pipe(Effect.catchIf(isLocked, () =>
    new StartRefused({
      message: "Other transactions hold tables that migrations change: end them (pg_stat_activity), or come again later"
    })))
  yield* Effect.provide(run, layer({ url, poolSize: 1, applicationName: "card-rewards migrate" }))
})

/** Whether a lock timed out, or the migration deadlocked with the transactions that have the lock. */
const isLocked = (error: unknown): boolean =>
  error instanceof Migrator.MigrationError
    ? isLocked(error.cause)
    : isSqlError(error) && (error.reason._tag === "LockTimeoutError" || error.reason._tag === "DeadlockError")
