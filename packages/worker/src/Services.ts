import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Secrets, type SecretsKey } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { Layer } from "effect"
import { Connector } from "./Connector.ts"

/** What the fibers work with, over one database. */
export const layer = (config: {
  readonly database: Database.DatabaseConfig
  readonly secretsKeys: ReadonlyArray<SecretsKey>
  readonly allowPrivateNetwork: boolean
  readonly retryDelays: RetryDelays
  /** How long a claim on a delivery lasts; the decisions' minute where absent. */
  readonly claimMillis?: number
}) =>
  Layer.mergeAll(
    Processing.layer.pipe(Layer.provide(Programs.layer)),
    Deliveries.layer(config).pipe(
      Layer.provide(WebhookEndpoints.layer(config)),
      Layer.provide(Secrets.layer({ keys: config.secretsKeys }))
    ),
    Connector.layer(config)
  ).pipe(Layer.provideMerge(Database.layer(config.database)))
