import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Free money that waiting rewards are entitled to leaves `free` at once, even where there are too many of them for one
 * transaction: `assigned` is what waiting rewards created up to `assigned_to` are still to be reserved with.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  `ALTER TABLE vault_balances
    ADD COLUMN assigned numeric(78,0) NOT NULL DEFAULT 0 CHECK (assigned >= 0),
    ADD COLUMN assigned_to bigint NOT NULL DEFAULT 0 CHECK (assigned_to >= 0),
    ADD CHECK (free + assigned <= held)`,
  // with their amounts, so that a million of them are added up without a look at the table
  `DROP INDEX rewards_waiting`,
  `CREATE INDEX rewards_waiting ON rewards (integrator_id, asset, creation) INCLUDE (amount)
    WHERE state = 'AwaitingFunding'`,
  // a user's waiting rewards, when that user's money is looked at
  `CREATE INDEX rewards_waiting_of_user ON rewards (integrator_id, user_id, asset, creation)
    WHERE state = 'AwaitingFunding'`
]
