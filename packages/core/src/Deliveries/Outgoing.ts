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
  const held = yield* available(selectHeld(claims, now, minLeftMillis))
  const endpoints = Array.groupBy(held, ({ outgoing }) => outgoing.claim.integratorId)
  const ready = yield* Effect.forEach(Object.values(endpoints), Effect.fnUntraced(function*(of) {
    const signing = yield* Cache.get(secrets, of[0].key)
    return Array.isReadonlyArrayNonEmpty(signing)
      ? of.map(({ outgoing }): Outgoing => ({ ...outgoing, secrets: signing }))
      : []
  }), { concurrency: secretReads })
  return ready.flat()
})

const selectHeld = Effect.fnUntraced(function*(claims: ReadonlyArray<Claim>, now: number, minLeftMillis: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{
    index: number
    url: string
    eventId: string
    body: string
    rotation: number | null
    expiresAt: number | null
  }>`
    SELECT k.index, e.url, v.event_id, v.body, s.rotation, s.expires_at
    FROM unnest(${columns.int4(claims.map((_, index) => index))},
      ${columns.text(claims.map((one) => one.integratorId))},
      ${columns.int8(claims.map((one) => one.event))}, ${columns.int4(claims.map((one) => one.round))},
      ${columns.timestamptz(claims.map((one) => one.claimedUntil))})
      AS k(index, integrator_id, event, round, claimed_until)
    JOIN deliveries d ON d.integrator_id = k.integrator_id AND d.event = k.event AND d.round = k.round
      AND d.claimed_until = k.claimed_until AND d.state = 'pending'
    JOIN webhook_endpoints e ON e.integrator_id = d.integrator_id AND e.generation = d.generation
      AND e.deleted_at IS NULL
    JOIN events v ON v.integrator_id = d.integrator_id AND v.event = d.event
    CROSS JOIN LATERAL (
      SELECT max(rotation) AS rotation,
        min(expires_at) FILTER (WHERE expires_at > ${value.timestamptz(now)}) AS expires_at
      FROM webhook_secrets s WHERE s.integrator_id = e.integrator_id AND s.generation = e.generation
    ) s
    WHERE d.claimed_until >= ${value.timestamptz(now + minLeftMillis)} ORDER BY k.index`
  return rows.flatMap(({ body, eventId, expiresAt, index, rotation, url }) => {
    const claim = claims[index]
    if (claim === undefined) return []
    const { generation, integratorId } = claim
    return [{ outgoing: { claim, url, eventId, body }, key: { integratorId, generation, rotation, expiresAt } }]
  })
})
