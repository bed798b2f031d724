import { Effect, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import * as Database from "./Database.ts"
import * as Roles from "./Roles.ts"
import { StartRefused } from "./Settings.ts"

/** How long a starting process waits for the schema it needs. */
const patienceMillis = 30_000
const askAgainMillis = 500

/** How long one look at the database may take: a host that answers nothing any more would never end it. */
const lookMillis = 5_000

type Config = Omit<Database.DatabaseConfig, "role">

/**
 * Waits until the database has the schema that this code works on; `admin migrate` brings it there. A newer schema,
 * and one that does not come, refuse the start. Gives how to reach the database under the lesser role.
 */
export const awaitSchema = Effect.fnUntraced(function*(config: Config, role: Roles.Role) {
  let found: number | undefined
  const look = schemaOf(config).pipe(
    Effect.catchTag("StartRefused", () => Effect.succeed(undefined)),
    Effect.map((seen) => found = seen)
  )
  yield* look.pipe(
    Effect.repeat({
      until: (seen) => seen !== undefined && seen >= Database.schemaVersion,
      schedule: Schedule.spaced(askAgainMillis)
    }),
    Effect.timeoutOption(patienceMillis)
  )
  if (found !== Database.schemaVersion) return yield* new StartRefused({ message: refusal(found) })
  return yield* underRole(config, role)
})

/** The same database under the lesser role, where the login may take it. */
export const underRole = Effect.fnUntraced(function*(config: Config, role: Roles.Role) {
  if (yield* ask(config, Roles.isAvailable(role))) return { ...config, role }
  yield* Effect.logWarning(`Works with all rights of its database login: it is no member of ${Roles.nameOf(role)}`)
  return config
})

/** The number of the last migration, 0 where there is none. */
export const schemaOf = (config: Config) => ask(config, version)

/** Asks over a connection of its own, and waits for the answer no longer than {@link lookMillis}. */
const ask = <A>(config: Config, question: Effect.Effect<A, SqlError.SqlError, SqlClient.SqlClient>) =>
  Database.withDeadline(lookMillis, Effect.provide(question, Database.layer({ ...config, poolSize: 1 }))).pipe(
    Effect.catchCause(() => Effect.fail(new StartRefused({ message: "The database could not be reached" })))
  )

const version = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql<{ present: boolean }>`
    SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS present`
  if (table?.present !== true) return 0
  const [last] = yield* sql<{ version: number }>`
    SELECT coalesce(max(migration_id), 0)::int AS version FROM effect_sql_migrations`
  return last?.version ?? 0
})

/** Why a start is refused over a database with another schema, or over none. */
export const refusal = (found: number | undefined): string =>
  found === undefined
    ? `The database could not be reached within ${patienceMillis / 1_000} s`
    : found > Database.schemaVersion
    ? `The database has schema ${found}, newer than ${Database.schemaVersion}, which this version works on`
    : `The database has schema ${found}, not ${Database.schemaVersion}: run "npm run admin -- migrate"`
