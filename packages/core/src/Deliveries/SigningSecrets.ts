import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { type Cache, Effect } from "effect"
import type { WebhookEndpoints } from "../WebhookEndpoints.ts"

/**
 * Which secrets sign: the endpoint's newest rotation, and the first expiry to come of a replaced one. Both change with
 * every rotation and every expiry, so what is cached under them is never out of date.
 */
export interface SecretsVersion {
  readonly integratorId: IntegratorId
  readonly generation: number
  readonly rotation: number | null
  readonly expiresAt: number | null
}

/** Reads an endpoint's secrets. Where they cannot be decrypted, logs an error for the operator and returns none. */
export const readSecrets = (endpoints: WebhookEndpoints["Service"]) => ({ generation, integratorId }: SecretsVersion) =>
  endpoints.signingSecrets(integratorId, generation).pipe(
    Effect.catchTag("SecretUnreadable", (error) =>
      Effect.as(Effect.logError(`Webhooks of ${integratorId} cannot be signed: ${error.message}`), []))
  )

/** Secrets of endpoints, read and decrypted once for a while. */
export type SecretsCache = Cache.Cache<SecretsVersion, ReadonlyArray<WebhookSecret>, Unavailable>
