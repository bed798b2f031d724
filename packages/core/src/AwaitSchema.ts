import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import { StartRefused } from "./Settings.ts"

/** How long a starting process waits for the schema it needs. */
const patienceMillis = 30_000
const askAgainMillis = 500

/**
 * Waits until the database has the schema that this code works on; `admin migrate` brings it there. A newer schema,
 * and one that does not come, refuse the start.
 */
export const awaitSchema = Effect.fnUntraced(function*(config: Database.DatabaseConfig) {
  let found: number | undefined
  const look = version.pipe(
    Effect.provide(Database.layer({ ...config, poolSize: 1 })),
    Effect.catchCause(() => Effect.succeed(undefined)),
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
})

/** The number of the last migration, 0 where there is none. */
const version = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [table] = yield* sql<{ present: boolean }>`
    SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS present`
  if (table?.present !== true) return 0
  const [last] = yield* sql<{ version: number }>`
    SELECT coalesce(max(migration_id), 0)::int AS version FROM effect_sql_migrations`
  return last?.version ?? 0
})

const refusal = (found: number | undefined): string =>
  found === undefined
    ? `The database could not be reached within ${patienceMillis / 1_000} s`
    : found > Database.schemaVersion
    ? `The database has schema ${found}, newer than ${Database.schemaVersion}, which this version works on`
    : `The database has schema ${found}, not ${Database.schemaVersion}: run "npm run admin -- migrate"`
