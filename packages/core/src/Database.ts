import { Unavailable } from "@card-rewards/domain/Errors"
import { PgClient, PgTypes } from "@effect/sql-pg"
import { Context, Duration, Effect, Exit, Fiber, Layer, type Redacted, Result, Schedule, Scope, String } from "effect"
import { Migrator, SqlClient, type SqlError } from "effect/sql"
import * as Sockets from "./Database/Sockets.ts"
import * as Metrics from "./Metrics.ts"
import initial from "./migrations/0001_initial.ts"
import deliveries from "./migrations/0002_deliveries.ts"
import assignedMoney from "./migrations/0003_assigned_money.ts"
import traces from "./migrations/0004_traces.ts"
import dueDeliveries from "./migrations/0005_due_deliveries.ts"
import deliverFaster from "./migrations/0006_deliver_faster.ts"
import pendingByTime from "./migrations/0007_pending_by_time.ts"
import vacuumedSooner from "./migrations/0008_vacuumed_sooner.ts"
import boundedLedger from "./migrations/0009_bounded_ledger.ts"
import reads from "./migrations/0010_reads.ts"
import quarantine from "./migrations/0011_quarantine.ts"
import programRevisions from "./migrations/0012_program_revisions.ts"
import * as Roles from "./Roles.ts"
import { StartRefused } from "./Settings.ts"

/** How the database is reached, and how many connections this process may hold. */
export interface DatabaseConfig {
  readonly url: Redacted.Redacted
  readonly poolSize: number
  readonly applicationName: string
  /** The lesser role to work under; absent, the login's own rights hold. See Roles.ts. */
  readonly role?: Roles.Role
}

/** Milliseconds after which a caller is told that the database is away (decisions, section 3). */
export const unavailableAfterMillis = 4_500

/**
 * The connection pool. Columns of type timestamptz come as milliseconds, bigint and numeric as bigint (every numeric
 * here is an integer), and names in camel case.
 */
export const layer = (config: DatabaseConfig): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError> =>
  closedInTime(PgClient.layer({
    url: config.url,
    stream: Sockets.to(config.url),
    maxConnections: config.poolSize,
    minConnections: 1,
    // a network that lost its way may have taken along what is not in use, and only the next user would learn it
    idleTimeout: Duration.seconds(5),
    connectTimeout: Duration.seconds(3),
    applicationName: config.applicationName,
    startupParameters: {
      timezone: "UTC",
      statement_timeout: "30s",
      // longer than any pause between two statements; what a lost session had locked is free again after it
      idle_in_transaction_session_timeout: "5s",
      // a client that is gone without a word: the server learns it within a minute, and ends the session with its locks
      tcp_keepalives_idle: "30",
      tcp_keepalives_interval: "10",
      tcp_keepalives_count: "3",
      tcp_user_timeout: "30s",
      // one that leaves in the middle of a statement is noticed while that runs
      client_connection_check_interval: "1s",
      // plans are kept while tables grow from nothing to millions of rows: only an index suits both
      enable_seqscan: "off",
      enable_bitmapscan: "off",
      ...(config.role === undefined ? {} : { role: Roles.nameOf(config.role) })
    },
    transformResultNames: String.snakeToCamel,
    transformJson: false,
    types: registry
  }))

/** How long the end waits for connections to close; one whose network lost its way never does. */
const closeWithinMillis = 3_000

const closedInTime = <A, E>(connections: Layer.Layer<A, E>): Layer.Layer<A, E> =>
  Layer.effectContext(Effect.gen(function*() {
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope, exit) =>
      Effect.forkDetach(Scope.close(scope, exit)).pipe(
        Effect.flatMap((closing) => Effect.timeoutOption(Fiber.join(closing), closeWithinMillis))
      ))
    return yield* Layer.buildWithScope(connections, scope)
  }))

const microsAt1970 = -946_684_800_000_000n

const timestamptz: PgTypes.Codec<number> = {
  encode: (millis) => PgTypes.encode(BigInt(millis) * 1_000n + microsAt1970, PgTypes.OID.int8),
  decode: (bytes) =>
    Result.map(PgTypes.decode(bytes, PgTypes.OID.timestamptz, 1), (value) =>
      value instanceof Date ? value.getTime() : Number.NaN)
}

const zero = PgTypes.encode("0", PgTypes.OID.numeric)

/** Most amounts that are written are zero. */
const numeric: PgTypes.Codec<bigint> = {
  encode: (value) => value === 0n ? zero : PgTypes.encode(value.toString(), PgTypes.OID.numeric),
  decode: (bytes) => Result.map(PgTypes.decode(bytes, PgTypes.OID.numeric, 1), (value) => BigInt(`${value}`))
}

const registry = PgTypes.makeRegistry()
registry.register(PgTypes.OID.timestamptz, timestamptz, { arrayOid: PgTypes.OID.timestamptzArray })
registry.register(PgTypes.OID.numeric, numeric, { arrayOid: PgTypes.OID.numericArray })

const column = <A>(oid: number) => (values: ReadonlyArray<A | null | undefined>): PgTypes.Parameter => ({
  [PgTypes.ParameterTypeId]: PgTypes.ParameterTypeId,
  oid,
  value: values.map((value) => value ?? null)
})

/** Whole columns as one parameter each, for `unnest`: a statement's text does not depend on how many rows it takes. */
export const columns = {
  text: column<string>(PgTypes.OID.textArray),
  int2: column<number>(PgTypes.OID.int2Array),
  int4: column<number>(PgTypes.OID.int4Array),
  int8: column<bigint>(PgTypes.OID.int8Array),
  bool: column<boolean>(PgTypes.OID.boolArray),
  numeric: column<bigint>(PgTypes.OID.numericArray),
  /** Milliseconds. */
  timestamptz: column<number>(PgTypes.OID.timestamptzArray),
  bytea: column<Uint8Array>(PgTypes.OID.byteaArray)
}

const scalar = <A>(oid: number) => (value: A | null | undefined): PgTypes.Parameter => ({
  [PgTypes.ParameterTypeId]: PgTypes.ParameterTypeId,
  oid,
  value: value ?? null
})

/** Single values whose type PostgreSQL is told. */
export const value = {
  text: scalar<string>(PgTypes.OID.text),
  int4: scalar<number>(PgTypes.OID.int4),
  int8: scalar<bigint>(PgTypes.OID.int8),
  numeric: scalar<bigint>(PgTypes.OID.numeric),
  /** Milliseconds. */
  timestamptz: scalar<number>(PgTypes.OID.timestamptz),
  bytea: scalar<Uint8Array>(PgTypes.OID.bytea)
}

/**
 * One transaction, begun again (3 times at most) where PostgreSQL asks for that. What a caller cannot act on is not
 * in its type: a database that is away or too slow is {@link Unavailable}, any other SQL error a defect.
 */
export const transaction = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Unavailable, R | SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => available(sql.withTransaction(effect)))

/**
 * As {@link transaction}, for statements that need none. The time-out does not wait for the statement's cancellation,
 * which a dead network may hold up.
 */
export const available = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Unavailable, R> => within(unavailableAfterMillis, effect)

/** Milliseconds after which a background step is given up; it commonly takes less than one second. */
export const StepMillis = Context.Reference<number>("@card-rewards/core/Database/StepMillis", {
  defaultValue: () => 20_000
})

/**
 * As {@link available}, for a step of background work. It has an end too: a network that lost its way leaves a
 * statement without an answer for ever.
 */
export const step = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Unavailable, R> =>
  Effect.flatMap(StepMillis, (millis) => within(millis, effect))

/**
 * As {@link unhurried}, until it is `late`. That does not wait for the statement's cancellation, which a dead network
 * may hold up.
 */
export const within = <A, E, R, Late = Unavailable>(
  millis: number,
  effect: Effect.Effect<A, E | SqlError.SqlError, R>,
  late: () => Effect.Effect<never, Late | Unavailable> = () => Effect.fail(away())
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Late | Unavailable, R> =>
  Effect.withFiber((caller) => {
    // a fiber has what the effect that it runs needs
    const fork = Effect.runForkWith(caller.context as Context.Context<R>)
    return Effect.callback((resume) => {
      const work = fork(unhurried(effect))
      const clock = fork(Effect.sleep(millis))
      work.addObserver((exit) => {
        clock.interruptUnsafe()
        resume(exit)
      })
      clock.addObserver((exit) => {
        if (Exit.isSuccess(exit)) {
          Sockets.dropQuiet()
          resume(late())
        }
        work.interruptUnsafe()
      })
      return Effect.sync(() => {
        work.interruptUnsafe()
        clock.interruptUnsafe()
      })
    })
  })

/** As {@link available}, for work that nobody waits for: it may take its time. */
export const unhurried = <A, E, R>(
  effect: Effect.Effect<A, E | SqlError.SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | Unavailable, R> =>
  Metrics.committing(effect).pipe(
    Effect.retry({ while: isConflict, times: 3, schedule: Schedule.jittered(Schedule.exponential(5)) }),
    Effect.catchIf(isSqlError, toUnavailable),
    // a rollback that fails because its connection is gone makes a defect of what it was for, too: a refusal, say
    Effect.catchCause((cause) => {
      const lost = cause.reasons.flatMap((reason) => reason._tag === "Die" && isSqlError(reason.defect) ? [reason.defect] : [])
      return lost[0] === undefined ? Effect.failCause(cause) : toUnavailable(lost[0])
    })
  )

const away = () => new Unavailable({ message: "The service cannot reach its database; send the same request again" })

const toUnavailable = (error: SqlError.SqlError) =>
  error.isRetryable || isPassing(error.reason.cause) ? Effect.fail(away()) : Effect.die(error)

/**
 * What passes without a change to this service, by PostgreSQL's error code: resources are short, a full disk included
 * (53); an operator, a restart or a recovery is in the way (57P); an I/O error (58); a time-out ended the session
 * (25P03, 25P04); the server has become a read-only one (25006).
 */
const isPassing = (cause: unknown): boolean =>
  typeof cause === "object" && cause !== null && "code" in cause && /^(53|57P|58|25P0[34]|25006)/u.test(`${cause.code}`)

const isSqlError = (error: unknown): error is SqlError.SqlError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "SqlError"

const isConflict = (error: unknown): boolean =>
  isSqlError(error) && (error.reason._tag === "DeadlockError" || error.reason._tag === "SerializationError")

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
