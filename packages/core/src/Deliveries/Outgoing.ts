import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Array, Cache, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { available, columns, value } from "../Database.ts"
import type { Claim, Outgoing } from "../Deliveries.ts"
import type { WebhookEndpoints } from "../WebhookEndpoints.ts"

/** How many endpoints' secrets are read at the same time. */
const secretReads = 4

/**
 * Which secrets sign: the endpoint's newest rotation, and the first expiry to come of a replaced one. Both change with
 * every rotation and every expiry, so what is cached under them is never out of date.
 */
export interface SecretsKey {
  readonly integratorId: IntegratorId
  readonly generation: number
  readonly rotation: number | null
  readonly expiresAt: number | null
}

/** Secrets that nobody can read are the operator's matter: none is given, and it is logged. */
export const readSecrets = (endpoints: WebhookEndpoints["Service"]) => ({ generation, integratorId }: SecretsKey) =>
  endpoints.signingSecrets(integratorId, generation).pipe(
    Effect.catchTag("SecretUnreadable", (error) =>
      Effect.as(Effect.logError(`Webhooks of ${integratorId} cannot be signed: ${error.message}`), []))
  )

type Secrets = Cache.Cache<SecretsKey, ReadonlyArray<WebhookSecret>, Unavailable>

/** What still holds of the claims, as it is to be sent now. Claims without secrets to sign with are left to expire. */
export const outgoingIn = Effect.fnUntraced(function*(
  claims: ReadonlyArray<Claim>,
  secrets: Secrets,
  now: number,
  minLeftMillis: number
) {
  const [endpoints, held] = yield* available(Effect.all([
    selectEndpoints(claims, now),
    selectHeld(claims, now + minLeftMillis)
  ], { concurrency: 2 }))
  const ready = yield* Effect.forEach(endpoints, Effect.fnUntraced(function*({ url, ...key }) {
    const signing = yield* Cache.get(secrets, key)
    return Array.isReadonlyArrayNonEmpty(signing) ? [[keyOf(key), { url, secrets: signing }] as const] : []
  }), { concurrency: secretReads })
  const endpointOf = new Map(ready.flat())
  return held.flatMap(({ body, eventId, index }): ReadonlyArray<Outgoing> => {
    const claim = claims[index]
    const endpoint = claim && endpointOf.get(keyOf(claim))
    return claim === undefined || endpoint === undefined ? [] : [{ claim, eventId, body, ...endpoint }]
  })
})

const keyOf = (of: Pick<SecretsKey, "integratorId" | "generation">) => `${of.generation}/${of.integratorId}`

/** The claims' endpoints that are not deleted. */
const selectEndpoints = Effect.fnUntraced(function*(claims: ReadonlyArray<Claim>, now: number) {
  const sql = yield* SqlClient.SqlClient
  const named = [...new Map(claims.map((claim) => [keyOf(claim), claim])).values()]
  return yield* sql<SecretsKey & { readonly url: string }>`
    SELECT e.integrator_id, e.generation, e.url, s.rotation, s.expires_at
    FROM unnest(${columns.text(named.map((one) => one.integratorId))},
      ${columns.int4(named.map((one) => one.generation))}) AS t(integrator_id, generation)
    JOIN webhook_endpoints e USING (integrator_id, generation)
    CROSS JOIN LATERAL (
      SELECT max(rotation) AS rotation,
        min(expires_at) FILTER (WHERE expires_at > ${value.timestamptz(now)}) AS expires_at
      FROM webhook_secrets s WHERE s.integrator_id = e.integrator_id AND s.generation = e.generation
    ) s
    WHERE e.deleted_at IS NULL`
})

/** Which claims hold for so long, each found by its key, whatever the planner knows of the tables. */
const selectHeld = Effect.fnUntraced(function*(claims: ReadonlyArray<Claim>, until: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ readonly index: number; readonly eventId: string; readonly body: string }>`
    SELECT k.index, v.event_id, v.body
    FROM unnest(${columns.int4(claims.map((_, index) => index))},
      ${columns.text(claims.map((one) => one.integratorId))},
      ${columns.int8(claims.map((one) => one.event))}, ${columns.int4(claims.map((one) => one.round))},
      ${columns.timestamptz(claims.map((one) => one.claimedUntil))})
      AS k(index, integrator_id, event, round, claimed_until)
    CROSS JOIN LATERAL (
      SELECT d.event FROM deliveries d
      WHERE d.integrator_id = k.integrator_id AND d.event = k.event AND d.round = k.round
        AND d.claimed_until = k.claimed_until AND d.claimed_until >= ${value.timestamptz(until)} OFFSET 0
    ) d
    CROSS JOIN LATERAL (
      SELECT v.event_id, v.body FROM events v WHERE v.integrator_id = k.integrator_id AND v.event = k.event OFFSET 0
    ) v`
})
