import { Duration, Effect, Fiber, Layer, type Redacted, Scope, String } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlError } from "effect/sql"
import * as Roles from "../Roles.ts"
import { registry } from "./Codecs.ts"
import * as Connections from "./Connections.ts"
import { sessionSettings } from "./SessionSettings.ts"

/** How the database is reached, and how many connections this process may hold. */
export interface DatabaseConfig {
  readonly url: Redacted.Redacted
  readonly poolSize: number
  readonly applicationName: string
  /** The lesser role to work under; absent, the login's own rights hold. See Roles.ts. */
  readonly role?: Roles.Role
}

/**
 * The connection pool. Columns of type timestamptz come as milliseconds, bigint and numeric as bigint (every numeric
 * here is an integer), and names in camel case.
 */
export const layer = (config: DatabaseConfig): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  closedInTime(Layer.effect(SqlClient.SqlClient, Connections.make({
    url: config.url,
    maxConnections: config.poolSize,
    minConnections: 1,
    // a half-open network takes idle connections along, and only their next user would find out
    idleTimeout: Duration.seconds(5),
    connectTimeout: Duration.seconds(3),
    keepAlive: Duration.seconds(30),
    applicationName: config.applicationName,
    startupParameters: {
      ...sessionSettings,
      ...(config.role === undefined ? {} : { role: Roles.nameOf(config.role) })
    },
    transformResultNames: String.snakeToCamel,
    transformJson: false,
    types: registry
  })).pipe(Layer.provide(Reactivity.layer)))

/** How long the end waits for connections to close; a half-open one never does. */
const closeWithinMillis = 3_000

const closedInTime = <A, E>(connections: Layer.Layer<A, E>): Layer.Layer<A, E> =>
  Layer.effectContext(Effect.gen(function*() {
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope, exit) =>
      Effect.forkDetach(Scope.close(scope, exit)).pipe(
        Effect.flatMap((closing) => Effect.timeoutOption(Fiber.join(closing), closeWithinMillis))
      ))
    return yield* Layer.buildWithScope(connections, scope)
  }))
