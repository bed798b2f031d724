import { Cause, Effect, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { movingSlots, type OwnedSlots, ownedSlots } from "./CellSlots.ts"
import * as Database from "./Database.ts"
import { describe, isFromServer, refusedCertificate, serverErrorOf } from "./Database/Errors.ts"
import { isCitus } from "./Database/SessionSettings.ts"
import * as Roles from "./Roles.ts"
import { StartRefused } from "./Settings.ts"

/** Time for which a starting process waits for the schema, and the interval between two checks. */
const schemaTimeoutMillis = 30_000
const pollMillis = 500

/** Deadline of one check: without it, a host that does not respond would block the check forever. */
const checkMillis = 5_000

type Config = Omit<Database.DatabaseConfig, "role">

/** What a check found: the schema, and the configuration where it is the one that this code requires. */
interface Found {
  /** Why the database cannot be used, as it says itself. */
  readonly refused?: StartRefused
  readonly schema?: number
  readonly usable?: Database.DatabaseConfig
}

/**
 * Waits up to 30 s until the database has the schema that this code requires, which `admin migrate` creates, and
 * returns the configuration with the least-privilege role. Fails with {@link StartRefused} where the schema is newer,
 * or is still missing, or the database away, after 30 s.
 */
export const awaitSchema = Effect.fnUntraced(function*(config: Config, role: Roles.Role) {
  let found: Found = {}
  const check = find(config, role).pipe(
    Effect.catchTag("StartRefused", (refused) =>
      Effect.succeed<Found>(refused instanceof Unreached ? {} : { refused })),
    Effect.map((last) => found = last)
  )
  yield* check.pipe(
    Effect.repeat({
      until: ({ schema = 0 }) => schema >= Database.schemaVersion,
      schedule: Schedule.spaced(pollMillis)
    }),
    Effect.timeoutOption(schemaTimeoutMillis)
  )
  return yield* usableOf(found)
})

/** The same of a database that must have the schema now. */
export const usableNow = (config: Config, role: Roles.Role) => Effect.flatMap(find(config, role), usableOf)

const usableOf = ({ refused, schema, usable }: Found) =>
  usable === undefined
    ? Effect.fail(refused ?? new StartRefused({ message: refusal(schema) }))
    : Effect.succeed(usable)

/** Repeats a read of a starting process while the database does not answer, for as long as it waits for the schema. */
export const awaitAnswer: <A, E extends { readonly _tag: string }, R>(
  read: Effect.Effect<A, E, R>
) => Effect.Effect<A, E, R> = Effect.retry({
  while: ({ _tag }: { readonly _tag: string }) => _tag === "Unavailable",
  schedule: Schedule.upTo(Schedule.spaced(pollMillis), { duration: schemaTimeoutMillis })
})

/** The configuration for the session's server, with the least-privilege role where the login is a member of it. */
export const underRole = Effect.fnUntraced(function*(config: Config, role: Roles.Role) {
  const found = (yield* isCitus) ? { ...config, isCitus: true } : config
  if (yield* Roles.isAvailable(role)) return { ...found, role }
  yield* Effect.logWarning(`Works with all rights of its database login, no member of ${Roles.nameOf(role)}`)
  return found
})

/** The number of the last migration, 0 where there is none. */
export const schemaOf = (config: Config) => queryOnce(config, version)

/** Fails with {@link StartRefused} where the schema is newer than the one that this code requires. */
export const refuseNewer = Effect.gen(function*() {
  const found = yield* version
  if (found > Database.schemaVersion) return yield* new StartRefused({ message: refusal(found) })
})

/** The same of a database, which must answer in time. */
export const refuseNewerIn = (config: Config) => queryOnce(config, refuseNewer)

/** The slots that the database owns: none before the first migration. */
export const slotsOf = (config: Config) =>
  queryOnce(config, Effect.flatMap(version, (found) => found === 0 ? Effect.succeed(noSlots) : ownedSlots))

const noSlots: OwnedSlots = new Map()

/** The last migration, and after the first the slots that the database owns and moves, and how many integrators. */
export const contentsOf = (config: Config) =>
  queryOnce(
    config,
    Effect.gen(function*() {
      const schemaVersion = yield* version
      if (schemaVersion === 0) return { schemaVersion, slots: noSlots, moving: [], integrators: 0 }
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ integrators: number }>`SELECT count(*)::int AS integrators FROM integrators`
      return { schemaVersion, slots: yield* ownedSlots, moving: yield* movingSlots, integrators: row?.integrators ?? 0 }
    })
  )

class Unreached extends StartRefused {}

/** Why a database cannot be used: that it was not reached, or what PostgreSQL says, such as of a password. */
export const unusable = (error: unknown): StartRefused => {
  if (error instanceof StartRefused) return error
  const said = isFromServer(error) ? describe(error) : serverErrorOf(error)?.message
  if (said !== undefined) return new StartRefused({ message: `The database refused: ${said}` })
  if (describe(error) === withoutTls) return new StartRefused({ message: `${withoutTls}, which its address requires` })
  const refused = refusedCertificate(error)
  if (refused !== undefined) return new StartRefused({ message: `The server's certificate is refused: ${refused}` })
  return new Unreached({ message: "The database could not be reached" })
}

/** What the driver says of a server that refuses TLS where `sslmode` requires it. */
const withoutTls = "The server does not support TLS"

/** Runs a query on connections of its own, within {@link checkMillis}. */
const queryOnce = <A>(
  config: Config,
  query: Effect.Effect<A, SqlError.SqlError | StartRefused, SqlClient.SqlClient>
) =>
  Database.withDeadline(
    checkMillis,
    Effect.mapError(Effect.provide(query, Database.layer({ ...config, poolSize: 2 })), unusable)
  ).pipe(Effect.catchCause((cause) => Effect.fail(unusable(Cause.squash(cause)))))

/** What a database has, over connections of one check. */
const find = (config: Config, role: Roles.Role): Effect.Effect<Found, StartRefused> =>
  queryOnce(
    config,
    Effect.gen(function*() {
      const schema = yield* version
      return schema === Database.schemaVersion ? { schema, usable: yield* underRole(config, role) } : { schema }
    })
  )

/**
 * Fails where two open connections do not have a session each, as behind a pooler in transaction mode: mostly they are
 * the same one there. Repeated, because others may use that one meanwhile.
 */
const refuseSharedSessions = Effect.scoped(Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const connections = [yield* sql.reserve, yield* sql.reserve]
  const sessions = Effect.forEach(connections, (one) =>
    Effect.map(one.executeValues("SELECT pg_backend_pid()", []), ([row]) => row?.[0]))
  const [first, second] = yield* sessions
  const later = yield* Effect.replicateEffect(sessions, 2)
  if (first !== second && later.every((found) => found[0] === first && found[1] === second)) return
  // others get these sessions next
  yield* Effect.forEach(connections, (one) => one.executeUnprepared("RESET ALL", [], undefined))
  return yield* new StartRefused({ message: sharedSessions })
}))

const sharedSessions = "The connection pooler before the database must be in session mode"

const version = Effect.gen(function*() {
  yield* refuseSharedSessions
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql<{ present: boolean }>`
    SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS present`
  if (table?.present !== true) return 0
  const [last] = yield* sql<{ version: number }>`
    SELECT coalesce(max(migration_id), 0)::int AS version FROM effect_sql_migrations`
  return last?.version ?? 0
})

/** The message of a start that is refused because the database has another schema, or cannot be reached. */
const refusal = (found: number | undefined): string =>
  found === undefined
    ? `The database could not be reached within ${schemaTimeoutMillis / 1_000} s`
    : found > Database.schemaVersion
    ? `The database has schema ${found}, newer than ${Database.schemaVersion}, which this version works on`
    : `The database has schema ${found}, not ${Database.schemaVersion}: run "npm run admin -- migrate"${
      found === 0 ? ", or let this login use the schema that has the tables" : ""
    }`
