import { Effect, type Redacted, Schedule } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import initial from "../migrations/0001_initial.ts"
import { noAction, type RecordAction } from "../OperatorActions/RecordAction.ts"
import * as Roles from "../Roles.ts"
import { StartRefused } from "../Settings.ts"
import { allSlots } from "../Slots.ts"
import { columns } from "./Columns.ts"
import { describe, isSqlError } from "./Errors.ts"
import { layer } from "./Pool.ts"
import { takeTime } from "./SessionSettings.ts"

/** The migrations in order, by their file names; scripts/tidy.ts compares this list with the folder. */
export const migrations = {
  "0001_initial": initial
}

/** The number of the last migration: the schema version that this code requires. */
export const schemaVersion = Object.keys(migrations).length

/** The key of the advisory lock that a migration holds; a move of slots holds it shared. */
export const migrationsLock = "hashtext('card-rewards migrations')"

/** Lock timeout of a migration: requests for the table queue behind its lock, and have a deadline of 4.5 s. */
const lockWaitMillis = 3_000

/** Pause after a lock timeout, in which those requests proceed. */
const lockPauseMillis = 2_000

/** Options of {@link migrate}; tests set them. */
export interface MigrateOptions {
  /** The migrations to apply, in order of their names; {@link migrations} when absent. */
  readonly migrations?: Readonly<Record<string, typeof initial>>
  /** Attempts of each migration to get its locks; 24 when absent, which take two minutes. */
  readonly lockTries?: number
  /** The schema of the tables, which is created where it is missing; the login's first one when absent. */
  readonly schema?: string
  /** The slots of a cell that has no tables yet; all when absent. */
  readonly slots?: ReadonlySet<number>
  /** Records what was done, in the transaction of the first migration that is applied, or else of the last. */
  readonly record?: RecordAction
}

/**
 * Applies the missing migrations and grants the roles their rights; the login must own the schema. A second concurrent
 * run waits for the first. Each migration has a transaction of its own, so that none keeps what an earlier one has
 * locked; one that fails changes nothing. While other transactions have locked the tables, it releases its locks and
 * retries. A cell that has its tables keeps its slots.
 */
export const migrate = Effect.fn("Database.migrate")(function*(url: Redacted.Redacted, options: MigrateOptions = {}) {
  const { record = noAction, schema } = options
  const run = Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const all = Object.entries(options.migrations ?? migrations)
    /** Applies the first migrations; the last transaction has all that follows them, too. */
    const upTo = (end: number) => sql.withTransaction(Effect.gen(function*() {
      // building an index on a large table may take hours, and so may the wait for a concurrent run
      yield* takeTime(0)
      // the general plan is none on Citus; see SessionSettings.ts
      yield* sql`SET LOCAL plan_cache_mode = force_custom_plan`
      yield* sql`SELECT pg_advisory_xact_lock(${sql.literal(migrationsLock)})`
      yield* sql.unsafe(`SET LOCAL lock_timeout = ${lockWaitMillis}`)
      if (schema !== undefined) yield* makeSchema(schema)
      const isNew = !(yield* hasSlots)
      if (isNew) yield* requireUsable
      const loader = Migrator.fromRecord(Object.fromEntries(all.slice(0, end)))
      const applied = yield* Migrator.make({})({ loader })
      if (isNew && (yield* hasSlots)) yield* giveSlots([...options.slots ?? allSlots])
      const isLast = end === all.length
      if (isLast) yield* Roles.grant
      // only the first record of an action counts
      if (applied.length > 0) yield* record(isLast ? "done" : "began")
      else if (isLast) yield* record("unchanged")
    }))
    const times = (options.lockTries ?? 24) - 1
    for (const index of all.keys()) {
      yield* Effect.retry(upTo(index + 1), { while: isLocked, times, schedule: Schedule.spaced(lockPauseMillis) })
    }
  }).pipe(Effect.catchIf(isLocked, () =>
    new StartRefused({
      message: "Other transactions hold tables that migrations change: end them (pg_stat_activity), or come again later"
    })),
    Effect.catchTag("MigrationError", ({ cause, message }) =>
      new StartRefused({ message: cause === undefined ? message : `${message}: ${describe(cause)}` }))
  )
  const config = { url, poolSize: 1, applicationName: "card-rewards migrate", ...(schema && { schema }) }
  yield* Effect.provide(run, layer(config))
})

/** Fails with {@link StartRefused} where the tables cannot be made, or could not store every text. */
const requireUsable = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ encoding: string; mayCreate: boolean }>`
    SELECT current_setting('server_encoding') AS encoding,
      coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_create`
  if (found?.encoding !== "UTF8") {
    return yield* new StartRefused({ message: `The database's encoding is ${found?.encoding}: it must be UTF8` })
  }
  if (found.mayCreate) return
  return yield* new StartRefused({ message: "The login may create no tables: it must own the database or its schema" })
})

/** A login that may create none can use one that it owns. */
const makeSchema = Effect.fnUntraced(function*(schema: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT FROM pg_namespace WHERE nspname = ${schema}`
  if (rows.length === 0) yield* sql`CREATE SCHEMA ${sql(schema)}`
})

const hasSlots = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql<{ present: boolean }>`SELECT to_regclass('cell_slots') IS NOT NULL AS present`
  return table?.present === true
})

const giveSlots = Effect.fnUntraced(function*(slots: ReadonlyArray<number>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO cell_slots (slot, state, epoch)
    SELECT slot, 'owned', 1 FROM unnest(${columns.int4(slots)}) AS slot`
})

/** Whether a lock timed out, or the migration deadlocked with the transactions that have the lock. */
const isLocked = (error: unknown): boolean =>
  error instanceof Migrator.MigrationError
    ? isLocked(error.cause)
    : isSqlError(error) && (error.reason._tag === "LockTimeoutError" || error.reason._tag === "DeadlockError")
