import { Effect } from "effect"
import type { Attacker } from "./Attacker.ts"

/**
 * Pays every claimable reward of the attacker's users by a claim of its own, with the rows that as many requests would
 * leave; 100,000 requests take minutes. No reward has been paid, recovered or refunded in part before, and the attacker
 * has no webhook endpoint.
 */
export const claimAll = ({ integratorId, sql }: Attacker) =>
  Effect.orDie(sql.withTransaction(Effect.gen(function*() {
    yield* sql`SELECT FROM vaults WHERE integrator_id = ${integratorId} FOR UPDATE`
    yield* sql`CREATE TEMP TABLE claims ON COMMIT DROP AS
      SELECT r.*, 'claim-' || r.creation AS reference, v.vault_id, v.entries, v.events, i.event_salt, b.free,
        row_number() OVER (ORDER BY r.creation) AS number,
        b.held - sum(r.amount) OVER (ORDER BY r.creation) AS held,
        date_trunc('milliseconds', now() + i.clock_offset_millis * interval '1 ms') AS claimed_at
      FROM rewards r JOIN vaults v USING (integrator_id) JOIN integrators i USING (integrator_id)
      JOIN vault_balances b USING (integrator_id, asset)
      WHERE r.integrator_id = ${integratorId} AND r.state = 'Claimable'`
    yield* sql`INSERT INTO vault_operations (integrator_id, reference, kind, asset, amount, user_id, recorded_at)
      SELECT integrator_id, reference, 'claim', asset, amount, user_id, claimed_at FROM claims`
    yield* sql`INSERT INTO journal
      (integrator_id, entry, recorded_at, asset, from_account, to_account, amount, user_id, reward, reference)
      SELECT integrator_id, entries + number, claimed_at, asset, 'claimable', 'paid', amount, user_id, creation,
        reference FROM claims`
    yield* sql.unsafe(insertEvents("vault.claim_confirmed", 1, claimData))
    yield* sql.unsafe(insertEvents("reward.paid", 0, rewardData))
    yield* sql`UPDATE rewards r
      SET state = 'Paid', paid = c.amount, revision = c.revision + 1, updated_at = c.claimed_at
      FROM claims c WHERE r.creation = c.creation
        AND r.integrator_id COLLATE "POSIX" = c.integrator_id AND r.user_id COLLATE "POSIX" = c.user_id`
    yield* sql`UPDATE user_balances b SET claimable = b.claimable - c.amount, paid = b.paid + c.amount
      FROM (SELECT integrator_id, user_id, asset, sum(amount) AS amount FROM claims GROUP BY 1, 2, 3) c
      WHERE b.integrator_id = c.integrator_id AND b.user_id = c.user_id AND b.asset = c.asset`
    yield* sql`UPDATE vault_balances b SET held = c.held, claims = b.claims + b.held - c.held
      FROM (SELECT integrator_id, asset, min(held) AS held FROM claims GROUP BY 1, 2) c
      WHERE b.integrator_id = c.integrator_id AND b.asset = c.asset`
    yield* sql`UPDATE vaults SET entries = entries + c.count, events = events + 2 * c.count
      FROM (SELECT count(*) FROM claims) c WHERE integrator_id = ${integratorId}`
  })))

/** A claim has two events, first the vault's: `before` counts those that follow it. */
const insertEvents = (kind: string, before: number, data: string): string => `
  INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
  SELECT integrator_id, event, event_id, '${kind}', claimed_at, claimed_at,
    json_build_object('id', event_id, 'kind', '${kind}', 'integratorId', integrator_id,
      'createdAt', ${timestamp("claimed_at")}, 'data', ${data})::text
  FROM (SELECT *, 'evt_' || event_salt || lpad(to_hex(event), 12, '0') AS event_id
    FROM (SELECT *, events + 2 * number - ${before} AS event FROM claims) numbered) identified`

const timestamp = (column: string): string => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const rewardId = "concat_ws(':', 'rw', integrator_id, user_id, kind, external_transaction_id, program_id)"

const claimData = `json_build_object('vaultId', vault_id, 'reference', reference,
  'amount', json_build_object('asset', asset, 'amount', amount::text),
  'balance', json_build_object('held', held::text, 'free', free::text), 'userId', user_id,
  'rewards', json_build_array(json_build_object('id', ${rewardId}, 'amount', amount::text)))`

const rewardData = `json_build_object('id', ${rewardId}, 'userId', user_id, 'programId', program_id,
  'programVersion', program_version,
  'transaction', json_build_object('kind', kind, 'externalTransactionId', external_transaction_id),
  'state', 'Paid', 'amount', json_build_object('asset', asset, 'amount', amount::text),
  'spend', json_build_object('currency', currency, 'amount', spend::text),
  'claimableAt', ${timestamp("claimable_at")}, 'createdAt', ${timestamp("created_at")},
  'updatedAt', ${timestamp("claimed_at")}, 'revision', revision + 1, 'earned', earned::text, 'paid', amount::text,
  'recovered', '0', 'clawedBack', '0', 'refundedSpend', '0')`
