import type { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Fiber, Layer, type Redacted, Scope, String } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlError } from "effect/sql"
import * as Roles from "../Roles.ts"
import { registry } from "./Codecs.ts"
import * as Connections from "./Connections.ts"
import { PoolSize } from "./PoolShares.ts"
import { citusSettings, sessionSettings } from "./SessionSettings.ts"

/** How to connect to the database. */
export interface DatabaseConfig {
  readonly url: Redacted.Redacted
  readonly poolSize: number
  readonly applicationName: string
  /** The schema of the tables; the login's first one where absent. */
  readonly schema?: string
  /** Whether the server distributes the schema; see docs/scaling.md. */
  readonly isCitus?: boolean
  /** Whether the sessions can change nothing. */
  readonly isReadOnly?: boolean
  /** The least-privilege role to work under; without it the login's own rights apply. See Roles.ts. */
  readonly role?: Roles.Role
}

/**
 * The connection pool, and its {@link PoolSize}. It decodes timestamptz as milliseconds, bigint and numeric as bigint
 * (every numeric of the schema is an integer), and converts column names to camel case.
 */
export const layer = (config: DatabaseConfig): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  withCloseTimeout(
    Layer.effect(SqlClient.SqlClient, Connections.make(poolOf(config), settingsOf(config))).pipe(
      Layer.provide(Reactivity.layer),
      Layer.merge(Layer.succeed(PoolSize, config.poolSize))
    )
  )

const poolOf = (config: DatabaseConfig): PgClient.PgPoolConfig => ({
  url: config.url,
  maxConnections: config.poolSize,
  minConnections: 1,
  // A new connection parses all statements anew. Idle ones may become half-open, which costs one deadline for all of
  // them together (Connections.ts).
  idleTimeout: Duration.seconds(60),
  connectTimeout: Duration.seconds(3),
  keepAlive: Duration.seconds(30),
  applicationName: config.applicationName,
  transformResultNames: String.snakeToCamel,
  transformJson: false,
  types: registry
})

const settingsOf = (config: DatabaseConfig): Readonly<Record<string, string>> => ({
  ...sessionSettings,
  ...(config.isCitus === true ? citusSettings : {}),
  ...(config.schema === undefined ? {} : { search_path: config.schema }),
  ...(config.isReadOnly === true ? { default_transaction_read_only: "on" } : {}),
  ...(config.role === undefined ? {} : { role: Roles.nameOf(config.role) })
})

/** Timeout of closing the connections at shutdown; a half-open one never closes. */
const closeTimeoutMillis = 3_000

const withCloseTimeout = <A, E>(connections: Layer.Layer<A, E>): Layer.Layer<A, E> =>
  Layer.effectContext(Effect.gen(function*() {
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope, exit) =>
      Effect.forkDetach(Scope.close(scope, exit)).pipe(
        Effect.flatMap((closing) => Effect.timeoutOption(Fiber.join(closing), closeTimeoutMillis))
      ))
    return yield* Layer.buildWithScope(connections, scope)
  }))
