import { Effect, type Redacted, Schedule } from "effect"
import { Migrator, SqlClient } from "effect/sql"
import initial from "../migrations/0001_initial.ts"
import deliveries from "../migrations/0002_deliveries.ts"
import assignedMoney from "../migrations/0003_assigned_money.ts"
import traces from "../migrations/0004_traces.ts"
import dueDeliveries from "../migrations/0005_due_deliveries.ts"
import deliverFaster from "../migrations/0006_deliver_faster.ts"
import pendingByTime from "../migrations/0007_pending_by_time.ts"
import vacuumedSooner from "../migrations/0008_vacuumed_sooner.ts"
import boundedLedger from "../migrations/0009_bounded_ledger.ts"
import reads from "../migrations/0010_reads.ts"
import quarantine from "../migrations/0011_quarantine.ts"
import programRevisions from "../migrations/0012_program_revisions.ts"
import * as Roles from "../Roles.ts"
import { StartRefused } from "../Settings.ts"
import { isSqlError } from "./Errors.ts"
import { layer } from "./Pool.ts"

/** Migrations in order; the checks hold this list against the folder. */
const migrations = {
  "0001_initial": initial,
  "0002_deliveries": deliveries,
  "0003_assigned_money": assignedMoney,
  "0004_traces": traces,
  "0005_due_deliveries": dueDeliveries,
  "0006_deliver_faster": deliverFaster,
  "0007_pending_by_time": pendingByTime,
  "0008_vacuumed_sooner": vacuumedSooner,
  "0009_bounded_ledger": boundedLedger,
  "0010_reads": reads,
  "0011_quarantine": quarantine,
  "0012_program_revisions": programRevisions
}

/** The number of the last migration: the schema that this code works on. */
export const schemaVersion = Object.keys(migrations).length

/** How long a migration waits for a lock: whoever asks for the table waits behind it, and a request waits 4.5 s. */
const lockWaitMillis = 3_000

/** The pause after that, in which those go on. */
const lockPauseMillis = 2_000

/**
 * Brings the schema and its roles up to date, as the schema's owner. Of two at once the second waits for the first.
 * Where other transactions hold the tables it lets go and tries again, `lockTries` times in all (two minutes when left
 * out).
 */
export const migrate = Effect.fn("Database.migrate")(function*(
  url: Redacted.Redacted,
  { lockTries = 24 }: { readonly lockTries?: number } = {}
) {
  const run = Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const once = sql.withTransaction(Effect.gen(function*() {
      // an index over a large table takes its time, and the first of two may take as long
      yield* sql`SET LOCAL statement_timeout = 0`
      yield* sql`SELECT pg_advisory_xact_lock(hashtext('card-rewards migrations'))`
      yield* sql.unsafe(`SET LOCAL lock_timeout = ${lockWaitMillis}`)
      yield* Migrator.make({})({ loader: Migrator.fromRecord(migrations) })
      yield* Roles.grant
    }))
    yield* Effect.retry(once, { while: isLocked, times: lockTries - 1, schedule: Schedule.spaced(lockPauseMillis) })
  }).pipe(Effect.catchIf(isLocked, () =>
    new StartRefused({
      message: "Other transactions hold tables that migrations change: end them (pg_stat_activity), or come again later"
    })))
  yield* Effect.provide(run, layer({ url, poolSize: 1, applicationName: "card-rewards migrate" }))
})

/** A lock did not come in time, or those who hold it waited for the migration's own. */
const isLocked = (error: unknown): boolean =>
  error instanceof Migrator.MigrationError
    ? isLocked(error.cause)
    : isSqlError(error) && (error.reason._tag === "LockTimeoutError" || error.reason._tag === "DeadlockError")
