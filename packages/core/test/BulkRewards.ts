import { value } from "@card-rewards/core/Database"
import { blockSize } from "@card-rewards/core/Ledger/Accounts"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import type { RewardState } from "@card-rewards/domain/Reward"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Rewards of one unit of USDC each, of users `<prefix>1`, `<prefix>2`, …, or all of the one user `prefix`. */
export interface BulkRewards {
  readonly prefix: string
  readonly users: number | "one"
  readonly count: number
  readonly state: Extract<RewardState, "AwaitingFunding" | "Pending" | "Claimable">
  /** In milliseconds, of the last reward of each user; the others are due a second earlier each. */
  readonly claimableAt: number
}

/**
 * Stores rewards without the purchases that earned them. Balances, the vault and all that is derived from the rewards
 * are as the service keeps them; the journal and the event log do not contain them.
 */
export const addRewards = Effect.fnUntraced(function*(integratorId: IntegratorId, bulk: BulkRewards) {
  const { claimableAt, count, prefix, state, users } = bulk
  const sql = yield* SqlClient.SqlClient
  const user = users === "one" ? sql`${prefix}` : sql`${prefix} || (n % ${value.int4(users)} + 1)`
  const perUser = users === "one" ? sql`n` : sql`(n / ${value.int4(users)})`
  yield* sql`INSERT INTO users (integrator_id, user_id, enrolled_at, updated_at)
    SELECT DISTINCT ${integratorId}, ${user}, now(), now() FROM generate_series(1, ${value.int4(count)}) n
    ON CONFLICT DO NOTHING`
  yield* sql`INSERT INTO rewards (integrator_id, user_id, kind, external_transaction_id, program_id, program_version,
      creation, asset, state, purchase_at, currency, spend, refunded_spend, earned, amount, paid, recovered,
      clawed_back, month_used_before, category_used_before, claimable_at, created_at, updated_at, revision)
    SELECT v.integrator_id, ${user}, 'clearing', (v.rewards + n)::text, 'p', 1, v.rewards + n, 'USDC', ${state}, now(),
      'USD', 100, 0, 1, 1, 0, 0, 0, 0, 0,
      ${value.timestamptz(claimableAt)} - ${perUser} * interval '1 second', now(), now(), 1
    FROM vaults v, generate_series(1, ${value.int4(count)}) n WHERE v.integrator_id = ${integratorId}`
  yield* sql`UPDATE vaults SET rewards = rewards + ${value.int4(count)}, work_at = now()
    WHERE integrator_id = ${integratorId}`
  yield* deriveBalances(integratorId)
})

/** Makes a vault's work due just after another's, whatever the clocks of PostgreSQL and of this process say. */
export const dueAfter = (earlier: IntegratorId, later: IntegratorId) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql`UPDATE vaults v SET work_at = e.work_at + interval '1 ms' FROM vaults e
      WHERE v.integrator_id = ${later} AND e.integrator_id = ${earlier}`)

/** Makes users owe an amount that none of their rewards explains. */
export const addOwed = Effect.fnUntraced(function*(
  integratorId: IntegratorId,
  prefix: string,
  users: number,
  owed: number
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO user_balances (integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid, owed)
    SELECT ${integratorId}, ${prefix} || n, 'USDC', 0, 0, 0, 0, ${value.int4(owed)}
    FROM generate_series(1, ${value.int4(users)}) n
    ON CONFLICT (integrator_id, user_id, asset) DO UPDATE SET owed = excluded.owed`
})

const deriveBalances = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO user_balances (integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid, owed,
      due_at, due_creation, first_waiting)
    SELECT integrator_id, user_id, asset, coalesce(sum(amount) FILTER (WHERE state = 'AwaitingFunding'), 0),
      coalesce(sum(amount) FILTER (WHERE state = 'Pending'), 0),
      coalesce(sum(amount) FILTER (WHERE state = 'Claimable'), 0), 0, 0,
      min(claimable_at) FILTER (WHERE state = 'Pending'),
      (array_agg(creation ORDER BY claimable_at, creation) FILTER (WHERE state = 'Pending'))[1],
      min(creation) FILTER (WHERE state = 'AwaitingFunding')
    FROM rewards WHERE integrator_id = ${integratorId} GROUP BY 1, 2, 3
    ON CONFLICT (integrator_id, user_id, asset) DO UPDATE SET awaiting_funding = excluded.awaiting_funding,
      pending = excluded.pending, claimable = excluded.claimable, due_at = excluded.due_at,
      due_creation = excluded.due_creation, first_waiting = excluded.first_waiting`
  yield* sql`DELETE FROM waiting_sums WHERE integrator_id = ${integratorId}`
  yield* sql`INSERT INTO waiting_sums (integrator_id, asset, block, amount)
    SELECT integrator_id, asset, creation / ${value.int8(blockSize)}, sum(amount) FROM rewards
    WHERE integrator_id = ${integratorId} AND state = 'AwaitingFunding' GROUP BY 1, 2, 3`
  yield* sql`UPDATE vault_balances b SET held = r.held, deposits = b.withdrawals + b.claims + r.held
    FROM (
      SELECT b.asset, b.free + b.assigned + coalesce(sum(r.amount), 0) AS held
      FROM vault_balances b LEFT JOIN rewards r ON r.integrator_id = b.integrator_id AND r.asset = b.asset
        AND r.state IN ('Pending', 'Claimable')
      WHERE b.integrator_id = ${integratorId} GROUP BY b.asset, b.free, b.assigned
    ) r WHERE b.integrator_id = ${integratorId} AND b.asset = r.asset`
})
