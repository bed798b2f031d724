import * as Database from "@card-rewards/core/Database"
import { Deliveries } from "@card-rewards/core/Deliveries"
import { Processing } from "@card-rewards/core/Processing"
import { Programs } from "@card-rewards/core/Programs"
import { Secrets } from "@card-rewards/core/Secrets"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { Connector } from "@card-rewards/worker/Connector"
import * as RewardMaturer from "@card-rewards/worker/RewardMaturer"
import * as SpendProcessor from "@card-rewards/worker/SpendProcessor"
import * as WebhookDispatcher from "@card-rewards/worker/WebhookDispatcher"
import { Effect, Layer } from "effect"
import { FreshDatabase } from "./FreshDatabase.ts"
import { secretsKeys } from "./Secrets.ts"

export interface WorkerOptions {
  /** When failed deliveries are tried again, in milliseconds; 50, 100, 200 when left out. */
  readonly retryDelays?: RetryDelays
  /** How long a claim on a delivery lasts, in milliseconds; the service's minute when left out. */
  readonly claimMillis?: number
}

const quickly: RetryDelays = [50, 100, 200]

/** The worker's fibers in this process: they process, mature and deliver, also to local receivers. */
export const layer = ({ retryDelays = quickly, ...claims }: WorkerOptions = {}) =>
  Layer.unwrap(Effect.map(FreshDatabase, ({ url }) => {
    const network = { allowPrivateNetwork: true }
    const deliveries = Deliveries.layer({ retryDelays, ...claims }).pipe(
      Layer.provide(WebhookEndpoints.layer(network)),
      Layer.provide(Secrets.layer({ keys: secretsKeys }))
    )
    const services = Layer.mergeAll(
      Processing.layer.pipe(Layer.provide(Programs.layer)),
      deliveries,
      Connector.layer(network)
    ).pipe(Layer.provide(Database.layer({ url, poolSize: 4, applicationName: "test worker" })))
    return Layer.provide(Layer.mergeAll(SpendProcessor.layer, RewardMaturer.layer, WebhookDispatcher.layer), services)
  }))
