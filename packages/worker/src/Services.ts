import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { JournalSeals } from "@card-rewards/core/JournalSeals"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Secrets, type SecretsKey } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Connector } from "./Connector.ts"
import { IsReachable } from "./Loop.ts"

/** Deadline of the statement that checks whether the database is reachable. */
const reachabilityTimeoutMillis = 1_000

const isReachable = Layer.effect(
  IsReachable,
  Effect.map(SqlClient.SqlClient, (sql) =>
    Effect.isSuccess(Database.backgroundStep(sql`SELECT 1`)).pipe(
      Effect.provideService(Database.StepMillis, reachabilityTimeoutMillis)
    ))
)

interface Config {
  readonly database: Database.DatabaseConfig
  readonly secretsKeys: ReadonlyArray<SecretsKey>
  readonly allowPrivateNetwork: boolean
  /** The number of the process's cells; 1 when absent. */
  readonly cellCount?: number
  /** The connector of all cells of the process; a cell has its own when absent. */
  readonly connector?: Connector["Service"]
}

/** The services of the worker's fibers, on one database. */
export const layer = (config: Config) =>
  Layer.mergeAll(
    Processing.layer.pipe(Layer.provide(Programs.layerOf(config.cellCount ?? 1))),
    JournalSeals.layer,
    Deliveries.layer.pipe(
      Layer.provide(WebhookEndpoints.layer(config)),
      Layer.provide(Secrets.layer({ keys: config.secretsKeys }))
    ),
    config.connector === undefined ? Connector.layer(config) : Layer.succeed(Connector, config.connector),
    isReachable
  ).pipe(Layer.provideMerge(Database.layer(config.database)))
