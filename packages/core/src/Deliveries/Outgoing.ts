import { Array, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { available, columns, value } from "../Database.ts"
import type { Claim, Outgoing } from "../Deliveries.ts"
import { WebhookEndpoints } from "../WebhookEndpoints.ts"

/** How many endpoints' secrets are read at the same time. */
const secretReads = 4

/** A claim that ends sooner than this is left to expire: the attempt might outlast it. */
export const minClaimLeftMillis = 20_000

/** What still holds of the claims, as it is to be sent now. */
export const outgoingIn = Effect.fnUntraced(function*(claims: ReadonlyArray<Claim>, now: number) {
  const held = yield* available(selectHeld(claims, now))
  const endpoints = Array.groupBy(held, ({ claim }) => claim.integratorId)
  const ready = yield* Effect.forEach(Object.values(endpoints), withSecrets, { concurrency: secretReads })
  return ready.flat()
})

const selectHeld = Effect.fnUntraced(function*(claims: ReadonlyArray<Claim>, now: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ index: number; url: string; eventId: string; body: string }>`
    SELECT k.index, e.url, v.event_id, v.body
    FROM unnest(${columns.int4(claims.map((_, index) => index))}, ${columns.text(claims.map((one) => one.integratorId))},
      ${columns.int8(claims.map((one) => one.event))}, ${columns.int4(claims.map((one) => one.round))},
      ${columns.timestamptz(claims.map((one) => one.claimedUntil))}) AS k(index, integrator_id, event, round, claimed_until)
    JOIN deliveries d ON d.integrator_id = k.integrator_id AND d.event = k.event AND d.round = k.round
      AND d.claimed_until = k.claimed_until AND d.state = 'pending'
    JOIN webhook_endpoints e ON e.integrator_id = d.integrator_id AND e.generation = d.generation AND e.deleted_at IS NULL
    JOIN events v ON v.integrator_id = d.integrator_id AND v.event = d.event
    WHERE d.claimed_until >= ${value.timestamptz(now + minClaimLeftMillis)} ORDER BY k.index`
  return rows.flatMap(({ index, ...row }) => {
    const claim = claims[index]
    return claim === undefined ? [] : [{ claim, ...row }]
  })
})

/** Secrets that nobody can read are the operator's matter; the others' deliveries go out, these claims expire. */
const withSecrets = Effect.fnUntraced(function*(of: Array.NonEmptyArray<Omit<Outgoing, "secrets">>) {
  const endpoints = yield* WebhookEndpoints
  const { generation, integratorId } = of[0].claim
  const secrets = yield* endpoints.signingSecrets(integratorId, generation).pipe(
    Effect.catchTag("SecretUnreadable", (error) =>
      Effect.as(Effect.logError(`Webhooks of ${integratorId} cannot be signed: ${error.message}`), []))
  )
  return Array.isReadonlyArrayNonEmpty(secrets) ? of.map((one): Outgoing => ({ ...one, secrets })) : []
})
