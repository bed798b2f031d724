import { Effect, type Redacted, Schedule } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import initial from "../migrations/0001_initial.ts"
import * as Roles from "../Roles.ts"
import { StartRefused } from "../Settings.ts"
import { isSqlError } from "./Errors.ts"
import { layer } from "./Pool.ts"

/** The migrations in order, by their file names; scripts/tidy.ts holds this list against the folder. */
export const migrations = {
  "0001_initial": initial
}

/** The number of the last migration: the schema that this code works on. */
export const schemaVersion = Object.keys(migrations).length

/** How long a migration waits for a lock: requests for the table queue behind it, and a request has 4.5 s. */
const lockWaitMillis = 3_000

/** The pause after that, in which those requests go on. */
const lockPauseMillis = 2_000

export interface MigrateOptions {
  /** What to apply, in order of the names; the released migrations when left out. */
  readonly migrations?: Readonly<Record<string, typeof initial>>
  /** How often in all it tries to get its locks; for two minutes when left out. */
  readonly lockTries?: number
}

/**
 * Brings the schema and its roles up to date, as the schema's owner. Of two at once the second waits for the first.
 * Where other transactions hold the tables it lets go and tries again; a migration that fails changes nothing.
 */
export const migrate = Effect.fn("Database.migrate")(function*(url: Redacted.Redacted, options: MigrateOptions = {}) {
  const run = Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const once = sql.withTransaction(Effect.gen(function*() {
      // an index over a large table takes its time, and the first of two may take as long
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

/** A lock did not come in time, or the transactions that hold it waited for the migration's own. */
const isLocked = (error: unknown): boolean =>
  error instanceof Migrator.MigrationError
    ? isLocked(error.cause)
    : isSqlError(error) && (error.reason._tag === "LockTimeoutError" || error.reason._tag === "DeadlockError")
