import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted, type Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import type { SqlError } from "effect/sql/SqlError"

export type Connection = PgClient.PgClient

/** One connection for the statements that create and drop databases; closed with the scope. */
export const connect = (url: Redacted.Redacted): Effect.Effect<PgClient.PgClient, SqlError, Scope.Scope> =>
  PgClient.makeClient({ url, applicationName: "card-rewards-dev-postgres", prepare: false }).pipe(
    Effect.provide(Reactivity.layer)
  )

/** The address of another database of the same server and user. */
export const withDatabase = (url: Redacted.Redacted, database: string): Redacted.Redacted => {
  const other = new URL(Redacted.value(url))
  other.pathname = `/${encodeURIComponent(database)}`
  return Redacted.make(other.href)
}

/**
 * Creates a database, empty or as a copy of `template`. The copy goes through the WAL: copying files needs two
 * checkpoints, which write whatever other databases have changed.
 */
export const createDatabase = Effect.fn("AdminSql.createDatabase")(function*(
  sql: PgClient.PgClient,
  name: string,
  template?: string
): Effect.fn.Return<void, SqlError> {
  yield* template === undefined
    ? sql`CREATE DATABASE ${sql(name)}`
    : sql`CREATE DATABASE ${sql(name)} TEMPLATE ${sql(template)} STRATEGY wal_log`
})

/** Drops a database, if it exists, and closes its connections. */
export const dropDatabase = Effect.fn("AdminSql.dropDatabase")(function*(
  sql: PgClient.PgClient,
  name: string
): Effect.fn.Return<void, SqlError> {
  yield* sql`DROP DATABASE IF EXISTS ${sql(name)} WITH (FORCE)`
})

/** Whether a database of this name exists. */
export const hasDatabase = Effect.fn("AdminSql.hasDatabase")(function*(
  sql: PgClient.PgClient,
  name: string
): Effect.fn.Return<boolean, SqlError> {
  const rows = yield* sql`SELECT 1 FROM pg_database WHERE datname = ${name}`
  return rows.length > 0
})

/** Runs an effect under an advisory lock: one session of this database at a time runs one with the same name. */
export const exclusively = (sql: PgClient.PgClient, name: string) =>
<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError, R> =>
  Effect.acquireUseRelease(
    sql`SELECT pg_advisory_lock(hashtextextended(${name}, 0))::text`,
    () => effect,
    () => sql`SELECT pg_advisory_unlock(hashtextextended(${name}, 0))`.pipe(Effect.ignore)
  )
