import type { ClientBase } from "pg"

/** The stored event of a job. */
export interface EventKey {
  readonly integratorId: string
  readonly userId: string
  readonly externalTransactionId: string
}

/** A webhook to post. */
export interface Webhook {
  readonly id: string
  readonly body: string
}

const read = {
  name: "read_event",
  text: `SELECT e.lane, e.cents, e.occurred_at, i.event_salt, coalesce(c.earned, 0) AS used
    FROM spend_events e JOIN integrators i ON i.integrator_id = e.integrator_id
    JOIN LATERAL (SELECT * FROM user_attributes u WHERE u.integrator_id = e.integrator_id AND u.user_id = e.user_id
      AND u.arrival < e.arrival ORDER BY u.arrival DESC LIMIT 1) a ON true
    LEFT JOIN cap_usage c ON c.integrator_id = e.integrator_id AND c.user_id = e.user_id AND c.program_id = 'program-0'
      AND c.month = extract(year FROM e.occurred_at)::int * 12 + extract(month FROM e.occurred_at)::int - 1
      AND c.category_id = ''
    WHERE e.integrator_id = $1 AND e.user_id = $2 AND e.kind = 'clearing' AND e.external_transaction_id = $3
      AND e.position IS NULL FOR UPDATE OF e`
}

const take = {
  name: "take_numbers",
  text: `UPDATE vaults SET rewards = rewards + 1, entries = entries + 1, events = events + 1 WHERE integrator_id = $1
    RETURNING rewards, entries, events`
}

const changes = `WITH applied AS (
    UPDATE spend_events SET position = $13, purchase_at = $4, refunded_cents = 0
    WHERE integrator_id = $1 AND user_id = $2 AND kind = 'clearing' AND external_transaction_id = $3
  ), usage AS (
    INSERT INTO cap_usage AS c (integrator_id, user_id, month, program_id, category_id, earned)
    VALUES ($1, $2, extract(year FROM $4::timestamptz)::int * 12 + extract(month FROM $4::timestamptz)::int - 1,
      'program-0', '', $5)
    ON CONFLICT (integrator_id, user_id, month, program_id, category_id)
    DO UPDATE SET earned = c.earned + EXCLUDED.earned
  ), reward AS (
    INSERT INTO rewards (integrator_id, user_id, kind, external_transaction_id, program_id, program_version, creation,
      asset, state, purchase_at, currency, spend, refunded_spend, earned, amount, paid, recovered, clawed_back,
      month_used_before, category_used_before, claimable_at, created_at, updated_at, revision)
    VALUES ($1, $2, 'clearing', $3, 'program-0', 1, $6, 'USDC', 'Pending', $4, 'USD', $7, 0, $5, $5, 0, 0, 0, $8, 0,
      $4::timestamptz + interval '14 days', now(), now(), 1)
  ), balance AS (
    INSERT INTO user_balances AS b (integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid, owed)
    VALUES ($1, $2, 'USDC', 0, $5, 0, 0, 0)
    ON CONFLICT (integrator_id, user_id, asset) DO UPDATE SET pending = b.pending + EXCLUDED.pending
  ), vault AS (
    UPDATE vault_balances SET free = free - $5, earned = earned + $5 WHERE integrator_id = $1 AND asset = 'USDC'
  ), entry AS (
    INSERT INTO journal (integrator_id, entry, recorded_at, asset, from_account, to_account, amount, user_id, reward)
    VALUES ($1, $9, now(), 'USDC', 'free', 'pending', $5, $2, $6)
  )`

const insertWebhook = `INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body, reward)
  VALUES ($1, $10, $11, 'reward.pending', now(), now(), $12, $6)`

const write = { name: "write_reward", text: `${changes} ${insertWebhook}` }

/** {@link write}, and in the same transaction a job that posts the webhook. */
const writeWithJob = {
  name: "write_reward_with_job",
  text: `${changes}, event AS (${insertWebhook} RETURNING event_id, body)
    SELECT 1 FROM event CROSS JOIN LATERAL graphile_worker.add_job('webhook', json_build_object(
      'id', event_id, 'body', body))`
}

const unitsPerCent = 10_000n
const monthCap = 10n ** 15n

/**
 * Processes one event as the service does: read, decide, write. The vault's row is locked last, because all events
 * of an integrator update it; one statement writes everything. With `addJob` it also adds the job `webhook` of
 * graphile-worker, whose payload is a {@link Webhook}.
 */
export const process = async (client: ClientBase, key: EventKey, addJob = false): Promise<void> => {
  const { externalTransactionId, integratorId, userId } = key
  await client.query("BEGIN")
  try {
    const { rows: [event] } = await client.query({ ...read, values: [integratorId, userId, externalTransactionId] })
    if (event !== undefined) {
      const raw = BigInt(event.cents) * unitsPerCent / 100n
      const left = monthCap - BigInt(event.used)
      const earned = `${raw < left ? raw : left}`
      const { rows: [numbers] } = await client.query({ ...take, values: [integratorId] })
      const occurredAt = event.occurred_at.toISOString()
      const eventId = `evt_${event.event_salt}${BigInt(numbers.events).toString(16).padStart(12, "0")}`
      await client.query({
        ...(addJob ? writeWithJob : write),
        values: [
          integratorId,
          userId,
          externalTransactionId,
          occurredAt,
          earned,
          numbers.rewards,
          event.cents,
          event.used,
          numbers.entries,
          numbers.events,
          eventId,
          bodyOf(eventId, key, { ...event, earned, occurredAt }),
          numbers.rewards
        ]
      })
    }
    await client.query("COMMIT")
  } catch (error) {
    await client.query("ROLLBACK")
    throw error
  }
}

/** The body of the webhook `reward.pending`. */
export const bodyOf = (
  id: string,
  { externalTransactionId, integratorId, userId }: EventKey,
  event: { readonly cents: string; readonly earned: string; readonly occurredAt: string }
): string => {
  const now = new Date().toISOString()
  return JSON.stringify({
    id,
    kind: "reward.pending",
    integratorId,
    createdAt: now,
    data: {
      id: `rw:${integratorId}:${userId}:clearing:${externalTransactionId}:program-0`,
      userId,
      programId: "program-0",
      programVersion: 1,
      transaction: { kind: "clearing", externalTransactionId },
      state: "Pending",
      amount: { asset: "USDC", amount: event.earned },
      spend: { currency: "USD", amount: event.cents },
      claimableAt: new Date(Date.parse(event.occurredAt) + 14 * 86_400_000).toISOString(),
      createdAt: now,
      updatedAt: now,
      revision: 1,
      earned: event.earned,
      paid: "0",
      recovered: "0",
      clawedBack: "0",
      refundedSpend: "0"
    }
  })
}
