import * as Database from "@card-rewards/core/Database"
import { Duration, Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { StartRefused } from "./Configuration.ts"

/** How long a starting process waits for the schema it needs. */
const patienceSeconds = 30

const askAgainMillis = 500

/**
 * Waits until the database has the schema that this code works on; `admin migrate` brings it there. A newer schema,
 * and one that does not come, refuse the start.
 */
export const awaitSchema = (config: Database.DatabaseConfig): Effect.Effect<void, StartRefused> =>
  version.pipe(
    Effect.provide(Database.layer({ ...config, poolSize: 1 })),
    Effect.catchCause(() => Effect.succeed(undefined)),
    Effect.flatMap((found) => found === Database.schemaVersion ? Effect.void : Effect.fail(new OtherSchema(found))),
    Effect.retry({
      while: ({ found }) => found === undefined || found < Database.schemaVersion,
      schedule: Schedule.spaced(Duration.millis(askAgainMillis)),
      times: patienceSeconds * 1_000 / askAgainMillis
    }),
    Effect.mapError(({ found }) => refusal(found)),
    Effect.timeoutOrElse({
      duration: Duration.seconds(patienceSeconds),
      orElse: () => Effect.fail(refusal(undefined))
    })
  )

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

class OtherSchema {
  readonly found: number | undefined
  constructor(found: number | undefined) {
    this.found = found
  }
}

const refusal = (found: number | undefined): StartRefused =>
  new StartRefused({
    message: found === undefined
      ? `The database could not be reached within ${patienceSeconds} s`
      : found > Database.schemaVersion
      ? `The database has schema ${found}, newer than ${Database.schemaVersion}, which this version works on`
      : `The database has schema ${found}, not ${Database.schemaVersion}: run "npm run admin -- migrate"`
  })
