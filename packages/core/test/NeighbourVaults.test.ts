import * as Ledger from "@card-rewards/core/Ledger"
import { Vault } from "@card-rewards/core/Vault"
import { type IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addRewards } from "./BulkRewards.ts"
import { ofAnn, setUp, statesOf, usdc, workAll } from "./LargeVaults.ts"
import { liveMoneyLayer } from "./Spending.ts"

/** One step of the worker on one vault. */
const work = (integratorId: IntegratorId) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(Ledger.work(integratorId)))

layer(liveMoneyLayer, { excludeTestServices: true })("of two vaults with the same users and numbers", (it) => {
  it.effect("each assigns its money to its own waiting rewards, across blocks and within one", () =>
    Effect.gen(function*() {
      const [own, other] = [yield* setUp, yield* setUp]
      const sql = yield* SqlClient.SqlClient
      const waiting = { prefix: "w", users: 5, state: "AwaitingFunding", claimableAt: own.now + 1e9 } as const
      yield* addRewards(own.integratorId, { ...waiting, count: 600 })
      yield* addRewards(other.integratorId, { ...waiting, count: 900 })
      const { deposit } = yield* Vault
      const assign = (reference: string, amount: bigint) =>
        Effect.provideService(deposit(own.integratorId, usdc(reference, amount)), Ledger.ServedAtOnce, 0)
      yield* assign("d", 450n)
      const assigned = sql`SELECT assigned, assigned_to FROM vault_balances
        WHERE integrator_id IN (${own.integratorId}, ${other.integratorId}) AND asset = 'USDC' ORDER BY assigned`
      assert.deepStrictEqual(yield* assigned, [{ assigned: 0n, assignedTo: 0n }, { assigned: 450n, assignedTo: 450n }])
      yield* assign("more than all need", 600n)
      assert.deepStrictEqual(yield* assigned, [{ assigned: 0n, assignedTo: 0n }, { assigned: 600n, assignedTo: 600n }])
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(own.integratorId), { Pending: 600 })
      assert.deepStrictEqual(yield* statesOf(other.integratorId), { AwaitingFunding: 900 })
    }))

  it.effect("each pays its own claims, and neither holds up nor ends those of the other", () =>
    Effect.gen(function*() {
      const [own, other] = [yield* setUp, yield* setUp]
      const sql = yield* SqlClient.SqlClient
      const { claim } = yield* Vault
      for (const { integratorId, now } of [other, own]) {
        yield* addRewards(integratorId, { ...ofAnn, count: 5, state: "Claimable", claimableAt: now })
        const all = claim(integratorId, { ...usdc("c", 5n), userId: UserId.make("ann") })
        yield* Effect.provideService(all, Ledger.PaidAtOnce, 2)
        assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 3, Paid: 2 })
      }
      yield* work(own.integratorId)
      assert.deepStrictEqual(yield* statesOf(own.integratorId), { Paid: 5 })
      assert.deepStrictEqual(yield* sql`SELECT integrator_id, amount FROM payouts`, [
        { integratorId: other.integratorId, amount: 3n }
      ])
      // what another ann claims holds up no reward
      yield* addRewards(own.integratorId, { ...ofAnn, count: 1, state: "Pending", claimableAt: own.now })
      yield* work(own.integratorId)
      assert.deepStrictEqual(yield* statesOf(own.integratorId), { Claimable: 1, Paid: 5 })
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(other.integratorId), { Paid: 5 })
    }))
})
