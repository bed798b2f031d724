import type { RetryDelays } from "@card-rewards/domain/Delivery"
import * as Fibers from "@card-rewards/worker/Fibers"
import { Effect, Layer, type Redacted } from "effect"
import { FreshDatabase } from "./FreshDatabase.ts"
import { secretsKeys } from "./Secrets.ts"

export interface WorkerOptions {
  /** When failed deliveries are tried again, in milliseconds; 50, 100, 200 when left out. */
  readonly retryDelays?: RetryDelays
  /** How long a lease on an endpoint lasts without renewal, in milliseconds; 30 s when absent. */
  readonly leaseMillis?: number
  /** How long the sealer of journals pauses, in milliseconds; 30 s when absent. */
  readonly sealMillis?: number
  /** How the database is reached; directly when left out. */
  readonly through?: (url: Redacted.Redacted) => Redacted.Redacted
}

const quickly: RetryDelays = [50, 100, 200]

/** The worker's fibers in this process; they also deliver to local receivers. */
export const layer = ({ retryDelays = quickly, through, ...pauses }: WorkerOptions = {}) =>
  Layer.unwrap(Effect.map(FreshDatabase, ({ url }) =>
    Fibers.layer({
      database: { url: through?.(url) ?? url, poolSize: 4, applicationName: "test worker", role: "worker" },
      secretsKeys,
      allowPrivateNetwork: true,
      retryDelays,
      ...pauses
    })))
