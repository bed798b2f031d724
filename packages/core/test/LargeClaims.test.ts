import { Processing } from "@card-rewards/core/Processing"
import { Vault } from "@card-rewards/core/Vault"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { UserId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addRewards } from "./BulkRewards.ts"
import { asIntegrator, balanceOf, ofAnn, pending, setUp, statesOf, usdc, workAll } from "./LargeVaults.ts"
import { liveMoneyLayer } from "./Spending.ts"

layer(liveMoneyLayer, { excludeTestServices: true })("a claim of any size", (it) => {
  it.effect("a claim of any number of rewards shows at once in balance, vault and journal, then reward by reward", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      const sql = yield* SqlClient.SqlClient
      const userId = UserId.make("ann")
      yield* addRewards(integratorId, { ...ofAnn, count: 3_000, state: "Claimable", claimableAt: now })
      yield* addRewards(integratorId, { ...ofAnn, ...pending, count: 600, claimableAt: now - 1e7 })
      assert.isFalse((yield* asIntegrator(vault.claim(integratorId, { ...usdc("c", 3_500n), userId }))).duplicate)

      assert.deepStrictEqual(yield* balanceOf(integratorId, "ann"), {
        awaitingFunding: 0n, pending: 0n, claimable: 100n, paid: 3_500n, owed: 0n
      })
      assert.strictEqual((yield* vault.get(integratorId)).balances[0]?.held, 100n)
      const net = sql<{ paid: bigint }>`
        SELECT sum(CASE from_account WHEN 'paid' THEN -amount ELSE amount END)::numeric AS paid FROM journal
        WHERE integrator_id = ${integratorId} AND 'paid' IN (from_account, to_account)`
      assert.deepStrictEqual(yield* net, [{ paid: 3_500n }])
      const [event] = yield* sql<{ count: number; shown: number; first: string }>`
        SELECT (body::jsonb->'data'->>'rewardCount')::int4 AS count,
          jsonb_array_length(body::jsonb->'data'->'rewards') AS shown,
          body::jsonb->'data'->'rewards'->0->>'id' AS first
        FROM events WHERE integrator_id = ${integratorId} AND kind = 'vault.claim_confirmed'`
      // the rewards that became claimable in the claim's own transaction are the oldest
      assert.deepStrictEqual(event, { count: 3_500, shown: 1_000, first: `rw:${integratorId}:ann:clearing:3600:p` })
      assert.deepStrictEqual((yield* statesOf(integratorId))["Paid"], 1_000)
      assert.isTrue((yield* vault.claim(integratorId, { ...usdc("c", 3_500n), userId })).duplicate)

      // a second claim of the same user comes after all of the first
      yield* asIntegrator(vault.claim(integratorId, { ...usdc("c2", 1n), userId }))
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 99, Paid: 3_501 })
      yield* workAll
      assert.deepStrictEqual(yield* net, [{ paid: 3_501n }])
      assert.lengthOf(yield* sql`SELECT FROM payouts WHERE integrator_id = ${integratorId}`, 0)
      const [emitted] = yield* sql<{ n: number }>`SELECT count(*)::int4 AS n FROM events
        WHERE integrator_id = ${integratorId} AND kind = 'reward.paid'`
      assert.strictEqual(emitted?.n, 3_501)
    }))

  it.effect("counts all rewards that it pays, beyond those that one statement reads", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      yield* addRewards(integratorId, { ...ofAnn, count: 40_000, state: "Claimable", claimableAt: now })
      // due already, and as old as some of those
      yield* addRewards(integratorId, { ...ofAnn, ...pending, count: 600, claimableAt: now - 1e6 })
      yield* asIntegrator((yield* Vault).claim(integratorId, { ...usdc("c", 24_999n), userId: UserId.make("ann") }))
      assert.deepStrictEqual(
        yield* sql`SELECT (body::jsonb->'data'->>'rewardCount')::int4 AS count FROM events
          WHERE integrator_id = ${integratorId} AND kind = 'vault.claim_confirmed'`,
        [{ count: 24_999 }]
      )
    }))

  it.effect("a large claim does not pay rewards of its user that become claimable before the worker finishes it", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      const sql = yield* SqlClient.SqlClient
      yield* addRewards(integratorId, { ...ofAnn, count: 1_600, state: "Claimable", claimableAt: now })
      yield* asIntegrator(vault.claim(integratorId, { ...usdc("c", 1_600n), userId: UserId.make("ann") }))
      // a reward that is older than all that the claim pays, and due only now
      yield* addOlder(integratorId)
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 1, Paid: 1_600 })
      assert.deepStrictEqual(
        yield* sql`SELECT creation FROM rewards WHERE integrator_id = ${integratorId} AND state = 'Claimable'`,
        [{ creation: 1_601n }]
      )
    }))

  it.effect("large claims of several users are all finished, also where nothing else is due", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      for (const prefix of ["ann", "bob"]) {
        yield* addRewards(integratorId, { prefix, users: "one", count: 1_100, state: "Claimable", claimableAt: now })
        yield* asIntegrator(vault.claim(integratorId, { ...usdc(prefix, 1_100n), userId: UserId.make(prefix) }))
      }
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 200, Paid: 2_000 })
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(integratorId), { Paid: 2_200 })
    }))

  it.effect("rewards of others mature while large claims are paid, and those of the claiming users afterwards", () =>
    Effect.gen(function*() {
      yield* workAll
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      const { matureRewards } = yield* Processing
      for (const prefix of ["ann", "bob"]) {
        yield* addRewards(integratorId, { prefix, users: "one", count: 1_600, state: "Claimable", claimableAt: now })
        yield* asIntegrator(vault.claim(integratorId, { ...usdc(prefix, 1_600n), userId: UserId.make(prefix) }))
      }
      const sql = yield* SqlClient.SqlClient
      yield* addRewards(integratorId, { ...pending, prefix: "cid", users: "one", count: 20, claimableAt: now })
      yield* addRewards(integratorId, { ...pending, prefix: "bob", users: "one", count: 300, claimableAt: now - 1e8 })
      yield* sql`UPDATE user_balances b SET paid = 1600, claimable = 0
        WHERE integrator_id = ${integratorId} AND user_id IN ('ann', 'bob')`
      yield* sql`UPDATE vault_balances SET held = 320, deposits = claims + 320
        WHERE integrator_id = ${integratorId} AND asset = 'USDC'`
      yield* matureRewards
      const matured = sql<{ userId: string; n: number }>`SELECT user_id, count(*)::int4 AS n FROM rewards
        WHERE integrator_id = ${integratorId} AND creation > 3200 AND state = 'Claimable' GROUP BY 1 ORDER BY 1`
      assert.deepStrictEqual(yield* matured, [{ userId: "cid", n: 20 }])
      yield* workAll
      assert.deepStrictEqual(yield* matured, [{ userId: "bob", n: 300 }, { userId: "cid", n: 20 }])
    }))
})

/** A pending reward of ann, due long ago, of which the vault has just learnt. */
const addOlder = (integratorId: IntegratorId) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.gen(function*() {
      yield* sql`INSERT INTO rewards SELECT integrator_id, user_id, kind, 'older', program_id, program_version, 1601,
          asset, 'Pending', category_id, purchase_at, currency, spend, refunded_spend, earned, amount, 0, recovered,
          clawed_back, month_used_before, category_used_before, claimable_at - interval '1 year', created_at,
          updated_at, 1
        FROM rewards WHERE integrator_id = ${integratorId} AND creation = 1`
      yield* sql`UPDATE vaults SET rewards = 1601, work_at = now() WHERE integrator_id = ${integratorId}`
      yield* sql`UPDATE vault_balances SET held = held + 1, deposits = deposits + 1
        WHERE integrator_id = ${integratorId} AND asset = 'USDC'`
      yield* sql`UPDATE user_balances SET pending = 1, due_at = r.claimable_at, due_creation = 1601 FROM rewards r
        WHERE user_balances.integrator_id = ${integratorId} AND r.integrator_id = ${integratorId} AND r.creation = 1601`
    }))
