import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What is due is found by index steps, and applied in pieces: see docs/decisions/0011-due-rewards-in-pieces.md. Every
 * column here is derived from the rewards and changes with them, under the vault's lock.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  // the user's first Pending reward by (claimable_at, creation), and the creation of the first AwaitingFunding one
  `ALTER TABLE user_balances ADD COLUMN due_at timestamptz`,
  `ALTER TABLE user_balances ADD COLUMN due_creation bigint`,
  `ALTER TABLE user_balances ADD COLUMN first_waiting bigint`,
  `UPDATE user_balances b SET due_at = r.claimable_at, due_creation = r.creation
    FROM (SELECT DISTINCT ON (integrator_id, user_id, asset) integrator_id, user_id, asset, claimable_at, creation
      FROM rewards WHERE state = 'Pending' ORDER BY integrator_id, user_id, asset, claimable_at, creation) r
    WHERE b.integrator_id = r.integrator_id AND b.user_id = r.user_id AND b.asset = r.asset`,
  `UPDATE user_balances b SET first_waiting = r.creation
    FROM (SELECT integrator_id, user_id, asset, min(creation) AS creation
      FROM rewards WHERE state = 'AwaitingFunding' GROUP BY integrator_id, user_id, asset) r
    WHERE b.integrator_id = r.integrator_id AND b.user_id = r.user_id AND b.asset = r.asset`,
  // users who owe, by what they can be recovered from; those with nothing to recover from are in neither
  `CREATE INDEX user_balances_recoverable ON user_balances (integrator_id, asset, due_at, due_creation)
    WHERE owed > 0 AND due_at IS NOT NULL`,
  `CREATE INDEX user_balances_assignable ON user_balances (integrator_id, asset, first_waiting)
    WHERE owed > 0 AND first_waiting IS NOT NULL`,
  // one index for each of the two states: neither passes over the other's rewards
  `DROP INDEX rewards_unpaid`,
  `CREATE INDEX rewards_pending_of_user ON rewards (integrator_id, user_id, asset, claimable_at, creation)
    WHERE state = 'Pending'`,
  `CREATE INDEX rewards_claimable_of_user ON rewards (integrator_id, user_id, asset, claimable_at, creation)
    WHERE state = 'Claimable'`,
  // the integrator's time of the last assignment: rewards that were due by then mature as they are reserved
  `ALTER TABLE vault_balances ADD COLUMN assigned_at timestamptz`,
  // real time at which the worker's next work on the vault is due; absent where there is none
  `ALTER TABLE vaults ADD COLUMN work_at timestamptz`,
  `UPDATE vaults SET work_at = now()`,
  `CREATE INDEX vaults_work ON vaults (work_at) WHERE work_at IS NOT NULL`,
  // amounts of waiting rewards, added up by blocks of 4,096 creations
  `CREATE TABLE waiting_sums (
    integrator_id text NOT NULL,
    asset text NOT NULL CHECK (asset IN ('USDC', 'EURe')),
    block bigint NOT NULL,
    amount numeric(78,0) NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (integrator_id, asset, block)
  )`,
  `INSERT INTO waiting_sums (integrator_id, asset, block, amount)
    SELECT integrator_id, asset, creation / 4096, sum(amount) FROM rewards
    WHERE state = 'AwaitingFunding' GROUP BY 1, 2, 3`,
  // the part of a claim that is in balances, vault and journal, and not yet in the rewards that it pays
  `CREATE TABLE payouts (
    integrator_id text NOT NULL,
    user_id text NOT NULL,
    asset text NOT NULL CHECK (asset IN ('USDC', 'EURe')),
    reference text NOT NULL,
    amount numeric(78,0) NOT NULL CHECK (amount > 0),
    PRIMARY KEY (integrator_id, user_id, asset)
  )`
]
