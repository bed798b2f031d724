import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as Cells from "./0001_initial/Cells.ts"
import * as Integrators from "./0001_initial/Integrators.ts"
import * as OperatorActions from "./0001_initial/OperatorActions.ts"
import * as Processing from "./0001_initial/Processing.ts"
import * as Programs from "./0001_initial/Programs.ts"
import * as Rewards from "./0001_initial/Rewards.ts"
import * as SpendEvents from "./0001_initial/SpendEvents.ts"
import * as Users from "./0001_initial/Users.ts"
import * as Vaults from "./0001_initial/Vaults.ts"
import * as Webhooks from "./0001_initial/Webhooks.ts"

/**
 * Every table's primary key begins with `integrator_id` (integrators and the look-up of key hashes aside), so that an
 * integrator's rows are one shard. Amounts are smallest units in `numeric(78,0)`, spend is minor units in `bigint`.
 * What a role may do with a table is in Roles.ts: the journal is append-only because no role may change it.
 */
export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const statement of statements) yield* sql.unsafe(statement)
})

const statements = [
  ...Cells.statements,
  ...OperatorActions.statements,
  ...Integrators.statements,
  ...Users.statements,
  ...Programs.statements,
  ...SpendEvents.statements,
  ...Processing.statements,
  ...Vaults.statements,
  ...Rewards.statements,
  ...Webhooks.statements
]
