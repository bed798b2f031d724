import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"
import type { Client } from "pg"
import { InvalidRun } from "../Measure.ts"
import { bodyOf } from "../peers/EventWork.ts"

/** Events that appear at once. */
export interface StoredEvents {
  readonly integrators: ReadonlyArray<IntegratorId>
  /** Events of each integrator. */
  readonly count: number
  /** Begins the transaction ids of the rewards: the first one is `<prefix>-0`. */
  readonly prefix: string
  /** Events of each reward. */
  readonly revisions?: number
}

/** Events of one reward are this far apart in the log, more than a consumer's window holds. */
const apart = 200
/** Events of each integrator that one statement stores. */
const batchSize = 20_000

/**
 * Stores events of rewards in one transaction, the next ones of each integrator, and lets a worker lease their
 * endpoints, as a vault does. Events of the integrators alternate.
 */
export const storeEvents = (client: Client, { count, integrators, prefix, revisions = 1 }: StoredEvents) =>
  Effect.tryPromise({
    try: async () => {
      const body = template()
      await client.query("BEGIN")
      for (let from = 1; from <= count; from += batchSize) {
        const to = Math.min(count, from + batchSize - 1)
        await client.query({ name: "store_events", text, values: [integrators, from, to, body, prefix, revisions] })
      }
      await client.query("UPDATE vaults SET events = events + $2 WHERE integrator_id = ANY($1)", [integrators, count])
      await client.query(
        `UPDATE webhook_endpoints SET work_at = greatest(now(), probe_at)
          WHERE integrator_id = ANY($1) AND worker IS NULL AND deleted_at IS NULL`,
        [integrators]
      )
      await client.query("COMMIT")
    },
    catch: (error) => new InvalidRun({ message: `no events are stored: ${error}` })
  })

/** The body of each event, apart from the parts in braces. */
const template = (): string => {
  const key = { integratorId: "{integrator}", userId: "user-0000000", externalTransactionId: "{transaction}" }
  const event = { cents: "12345", earned: "123450000", occurredAt: "2026-01-01T00:00:00.000Z" }
  return bodyOf("{id}", key, event).replace("\"revision\":1", "\"revision\":{revision}")
}

const text = `
  INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body, reward)
  SELECT integrator_id, before + n, id, 'reward.pending', now(), now(),
    replace(replace(replace(replace($4::text, '{id}', id), '{integrator}', integrator_id),
      '{transaction}', $5 || '-' || reward), '{revision}', revision::text),
    before + reward + 1
  FROM (
    SELECT i.integrator_id, v.events AS before, n, 'evt_' || i.event_salt || lpad(to_hex(v.events + n), 12, '0') AS id,
      (n - 1) / ($6::bigint * ${apart}) * ${apart} + (n - 1) % ${apart} AS reward,
      (n - 1) / ${apart} % $6::bigint + 1 AS revision
    FROM generate_series($2::bigint, $3::bigint) AS n
    CROSS JOIN vaults v JOIN integrators i USING (integrator_id)
    WHERE v.integrator_id = ANY($1::text[])
  ) e
  ORDER BY n, integrator_id`
