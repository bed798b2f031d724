import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Context, Effect, Exit, Fiber, identity, Option, Predicate, type Scope, Stream } from "effect"
import type { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError, Statement } from "effect/sql"

/** A pooled connection, with the state that decides whether it may be borrowed again. */
interface PooledConnection {
  readonly connection: SqlConnection.Connection
  /**
   * Takes the connection out of the pool: closed at once where it is idle, else when its borrower returns it. The
   * pool's other connections are tested before they are borrowed until `isAlive` says whether they are suspect.
   */
  readonly retire: (isAlive: Effect.Effect<boolean>) => Effect.Effect<void>
  /** How many of the pool's connections had not answered before this one was first used. */
  readonly silentBefore: number
  /** The deadline of the latest borrower. */
  borrower: Deadline | undefined
  hasSettings: boolean
}

/** The connections that the work under one deadline has borrowed, which may have deadlines of its own parts. */
export class Deadline {
  readonly #connections = new Set<PooledConnection>()
  readonly #whole: Deadline | undefined

  /** `whole` is the deadline of the work that this one's is a part of. */
  constructor(whole: Deadline | undefined) {
    this.#whole = whole
  }

  add(connection: PooledConnection): void {
    this.#connections.add(connection)
    this.#whole?.add(connection)
  }

  /** Retires the connections that this deadline's work was the last to borrow; `isAlive` says whether they answer. */
  readonly retireConnections = (isAlive: Effect.Effect<boolean>): Effect.Effect<void> =>
    Effect.suspend(() =>
      Effect.forEach(
        [...this.#connections].filter(({ borrower }) => borrower?.isWithin(this)),
        ({ retire }) => retire(isAlive),
        { concurrency: "unbounded", discard: true }
      )
    )

  private isWithin(other: Deadline): boolean {
    return this === other || this.#whole?.isWithin(other) === true
  }
}

/** The deadline under which a fiber's statements run. */
export const CurrentDeadline = Context.Reference<Deadline | undefined>("@card-rewards/core/Database/CurrentDeadline", {
  defaultValue: () => undefined
})

/**
 * Timeout of a new connection's first statement, once a deadline of this pool was exceeded; and the longest, where one
 * after the other exceeds it: the database may be slow rather than away.
 */
const [firstAnswerMillis, maxAnswerMillis] = [300, 2_400]

/** Result of borrowing a suspect connection: the borrower has to take another one. */
const suspect: unique symbol = Symbol("suspect")

/** What a pool knows of whether its connections answer. */
class Answers {
  /** How many connections were retired. */
  retired = 0
  /** How many of these were found not to answer, and of how many it is not known yet. */
  silent = 0
  undecided = 0
  private millis = firstAnswerMillis

  /** Counts a retired connection. */
  readonly count = (isAlive: Effect.Effect<boolean>): Effect.Effect<void> =>
    Effect.suspend(() => {
      this.retired++
      this.undecided++
      return isAlive
    }).pipe(
      Effect.map((answered) => {
        if (answered) return
        this.silent++
        this.millis = firstAnswerMillis
      }),
      Effect.ensuring(Effect.sync(() => this.undecided--))
    )

  /** Whether the connection answers a test statement in time. Closing the connection ends a hanging one. */
  readonly of = (connection: PgConnection.PgConnection): Effect.Effect<boolean> =>
    Effect.flatMap(Effect.forkDetach(Effect.exit(connection.query("SELECT 1"))), (answer) =>
      Effect.map(Effect.timeoutOption(Fiber.join(answer), this.millis), (exit) => {
        const isAlive = Option.isSome(exit) && Exit.isSuccess(exit.value)
        if (!isAlive) this.millis = Math.min(2 * this.millis, maxAnswerMillis)
        return isAlive
      }))
}

/**
 * A client over a pool of connections, like that of {@link PgClient.make}, which also detects half-open connections.
 *
 * An exceeded deadline takes the connections that its own work borrowed out of the pool. Where these do not answer the
 * cancellation either, every other connection is suspect from then on, because a network failure usually affects all of
 * them and each would cost its next user another deadline: it is replaced before it is borrowed again. Until that is
 * known, connections run a test statement before they are borrowed. A connection in use stays open until its borrower
 * returns it. The pool opens connections ahead of their first use; after an exceeded deadline these run a test
 * statement first.
 *
 * A session gets its settings by a statement before its first use: as startup parameters, poolers refuse them or, told
 * to accept them, drop them without a word.
 */
export const make = Effect.fnUntraced(function*(
  config: PgClient.PgPoolConfig,
  settings: Readonly<Record<string, string>>
): Effect.fn.Return<SqlClient.SqlClient, SqlError.SqlError, Scope.Scope | Reactivity.Reactivity> {
  const pool = yield* PgPool.make(config)
  const pooledConnections = new WeakMap<PgConnection.PgConnection, PooledConnection>()
  const answers = new Answers()
  const applySettings = makeApplySettings(pool, settings)

  const makePooled = (connection: PgConnection.PgConnection): PooledConnection => {
    const pooled = {
      connection: statementsOn(connection),
      retire: (isAlive: Effect.Effect<boolean>) => answers.count(Effect.andThen(pool.invalidate(connection), isAlive)),
      silentBefore: answers.silent,
      borrower: undefined,
      hasSettings: false
    }
    pooledConnections.set(connection, pooled)
    return pooled
  }

  /** Runs `use` for a borrower under this deadline; a suspect connection is taken out of the pool instead. */
  const lend = <A, E, R>(
    connection: PgConnection.PgConnection,
    deadline: Deadline | undefined,
    use: (pooled: PooledConnection) => Effect.Effect<A, E, R>
  ): Effect.Effect<A | typeof suspect, E | SqlError.SqlError, R> => {
    const known = pooledConnections.get(connection)
    const isSuspect = () => known !== undefined && known.silentBefore < answers.silent
    const lent = (isAlive: boolean): Effect.Effect<A | typeof suspect, E | SqlError.SqlError, R> => {
      if (!isAlive || isSuspect()) return Effect.as(pool.invalidate(connection), suspect)
      const pooled = known ?? makePooled(connection)
      pooled.borrower = deadline
      deadline?.add(pooled)
      if (pooled.hasSettings) return use(pooled)
      return Effect.andThen(applySettings(connection, pooled), Effect.suspend(() => use(pooled)))
    }
    const isTested = known === undefined ? answers.retired > 0 : answers.undecided > 0 && !isSuspect()
    return isTested ? Effect.flatMap(answers.of(connection), lent) : lent(true)
  }

  const borrower = <A, E, R>(
    use: (connection: SqlConnection.Connection) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.withFiber((fiber) => {
      const deadline = fiber.getRef(CurrentDeadline)
      const used = pool.use((connection) => lend(connection, deadline, (pooled) => use(pooled.connection)))
      return Effect.flatMap(used, (result) => result === suspect ? borrower(use) : Effect.succeed(result))
    })

  const acquire: Effect.Effect<PgConnection.PgConnection, SqlError.SqlError, Scope.Scope> = Effect.flatMap(
    Effect.zip(CurrentDeadline, pool.get),
    ([deadline, connection]) =>
      Effect.flatMap(
        lend(connection, deadline, () => Effect.succeed(connection)),
        (result) => result === suspect ? acquire : Effect.succeed(result)
      )
  )

  return yield* SqlClient.make({
    ...dialect(config),
    acquirer: Effect.map(acquire, statementsOn),
    borrower,
    transactionAcquirer: Effect.map(Effect.flatMap(acquire, (connection) => connection.pin), statementsOn)
  })
})

/** Applies its settings to a session. One that does not get all of them leaves the pool. */
const makeApplySettings = (pool: PgPool.PgPool, settings: Readonly<Record<string, string>>) => {
  const calls = Object.keys(settings).map((_, index) => `set_config($${2 * index + 1}, $${2 * index + 2}, false)`)
  const [statement, values] = [`SELECT ${calls.join(", ")}`, Object.entries(settings).flat()]
  return (connection: PgConnection.PgConnection, pooled: PooledConnection): Effect.Effect<void, SqlError.SqlError> =>
    connection.query(statement, values, false).pipe(
      Effect.andThen(Effect.sync(() => void (pooled.hasSettings = true))),
      // a role that was revoked refuses a connection, as a password does
      Effect.mapError(({ reason: { cause, message } }) =>
        new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause, message, operation: "connect" }) })),
      Effect.onError(() => pool.invalidate(connection))
    )
}

const dialect = (config: PgClient.PgPoolConfig) => ({
  driver: "pg",
  prepareTransactionControls: true,
  commit,
  releaseSavepoint: (name: string) => `RELEASE SAVEPOINT ${name}`,
  compiler: PgClient.makeCompiler(undefined, config.transformJson),
  spanAttributes: [["db.system.name", "postgresql"]] as const,
  transformRows: Statement.defaultTransforms(config.transformResultNames ?? identity, config.transformJson).array
})

/** The client's statement interface on one connection. */
const statementsOn = (connection: PgConnection.PgConnection): SqlConnection.Connection => {
  const execute = (prepare: boolean): SqlConnection.Connection["execute"] => (sql, params, transformRows) =>
    Effect.map(
      connection.query(sql, params, prepare),
      ({ rows }) => transformRows === undefined ? rows : transformRows(rows)
    )
  return {
    execute: execute(true),
    executeUnprepared: execute(false),
    executeRaw: connection.query,
    executeValues: connection.queryValues,
    executeValuesUnprepared: (sql, params) => connection.queryValues(sql, params, false),
    executeStream: (sql, params, transformRows) =>
      Stream.flatMap(
        connection.stream(sql, params),
        (row) => Stream.fromIterable(transformRows === undefined ? [row] : transformRows([row]))
      )
  }
}

/** Commits, and fails where PostgreSQL rolls back instead because a statement of the transaction failed. */
const commit = (connection: SqlConnection.Connection): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
    Predicate.hasProperty(result, "command") && result.command === "ROLLBACK" ? Effect.fail(rolledBack()) : Effect.void)

const rolledBack = () => {
  const message = "COMMIT rolled back an aborted transaction"
  return new SqlError.SqlError({
    reason: new SqlError.UnknownError({ cause: new Error(message), message, operation: "commit" })
  })
}
