import * as Ledger from "@card-rewards/core/Ledger"
import { Processing } from "@card-rewards/core/Processing"
import { Rewards } from "@card-rewards/core/Rewards"
import { Vault } from "@card-rewards/core/Vault"
import { UserId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Result } from "effect"
import { SqlClient } from "effect/sql"
import { addOwed, addRewards, dueAfter } from "./BulkRewards.ts"
import { asIntegrator, balanceOf, ofAnn, pending, setUp, statesOf, usdc, workAll } from "./LargeVaults.ts"
import { liveMoneyLayer } from "./Spending.ts"

layer(liveMoneyLayer, { excludeTestServices: true })("a vault of any size", (it) => {
  it.effect("a read of a user with many due rewards applies more of them each time, and is exact in the end", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      yield* addRewards(integratorId, { prefix: "ann", users: "one", count: 1_000, state: "Pending", claimableAt: now })
      const read = balanceOf(integratorId, "ann").pipe(
        Effect.provide(Layer.fresh(Rewards.layer)),
        Effect.provide(Context.make(Ledger.PieceSize, 300).pipe(Context.add(Ledger.CatchUpMillis, 0)))
      )
      const answers: Array<string> = []
      for (let claimable = 0; claimable < 900; claimable += 300) {
        const answer = yield* Effect.result(read)
        answers.push(Result.isFailure(answer) ? answer.failure._tag : "read")
        assert.strictEqual((yield* statesOf(integratorId))["Claimable"], claimable + 300)
      }
      assert.deepStrictEqual(answers, ["Unavailable", "Unavailable", "Unavailable"])
      assert.strictEqual((yield* read).claimable, 1_000n)
    }))

  it.effect("a read of a user who owes nothing is exact at once beside 2,000 due rewards of users who owe", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const owing = { prefix: "owing", users: 2_000, count: 2_000, state: "Pending" } as const
      yield* addRewards(integratorId, { ...owing, claimableAt: now - 1e6 })
      yield* addRewards(integratorId, { ...ofAnn, ...pending, count: 200, claimableAt: now })
      yield* addOwed(integratorId, owing.prefix, owing.users, 1)
      const { claimable } = yield* balanceOf(integratorId, "ann").pipe(
        Effect.provide(Layer.fresh(Rewards.layer)),
        Effect.provideService(Ledger.CatchUpMillis, 0)
      )
      assert.strictEqual(claimable, 200n)
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 200, Paid: 250, Pending: 1_750 })
    }))

  it.effect("claims and deposits are answered beside a user who owes and has 5,000 due rewards", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      yield* addRewards(integratorId, { prefix: "ann", users: "one", count: 5_000, state: "Pending", claimableAt: now })
      yield* addOwed(integratorId, "an", 1, 0)
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE user_balances SET owed = 4500 WHERE integrator_id = ${integratorId} AND user_id = 'ann'`
      yield* asIntegrator(vault.deposit(integratorId, usdc("d", 10n)))
      const [usdcBalance] = (yield* vault.get(integratorId)).balances
      assert.deepStrictEqual(usdcBalance, { asset: "USDC", held: 5_010n, free: 4_510n })
      assert.strictEqual((yield* asIntegrator(balanceOf(integratorId, "ann"))).claimable, 500n)
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 500, Paid: 4_500 })
      assert.isFalse((yield* vault.claim(integratorId, { ...usdc("c", 500n), userId: UserId.make("ann") })).duplicate)
      // the recoveries are from the rewards that were due first
      const [last] = yield* sql<{ last: bigint; first: bigint }>`SELECT
        (SELECT min(creation) FROM rewards WHERE integrator_id = ${integratorId} AND recovered > 0) AS last,
        (SELECT max(creation) FROM rewards WHERE integrator_id = ${integratorId} AND paid > 0) AS first`
      assert.deepStrictEqual(last, { last: 501n, first: 500n })
    }))

  it.effect("a deposit funds any number of waiting rewards at once, and others' rewards mature meanwhile", () =>
    Effect.gen(function*() {
      // the work that other tests have left comes first
      yield* workAll
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      const { matureRewards } = yield* Processing
      const claimableAt = now + 1e9
      const waiting = { prefix: "w", users: 50, count: 12_000, state: "AwaitingFunding", claimableAt } as const
      yield* addRewards(integratorId, waiting)
      yield* vault.deposit(integratorId, usdc("d", 11_000n))
      assert.strictEqual((yield* vault.get(integratorId)).balances[0]?.free, 0n)
      const sql = yield* SqlClient.SqlClient
      const assigned = sql`SELECT assigned, assigned_to FROM vault_balances
        WHERE integrator_id = ${integratorId} AND asset = 'USDC'`
      assert.deepStrictEqual(yield* assigned, [{ assigned: 10_750n, assignedTo: 11_000n }])
      // a new deposit continues where the first ended, across blocks
      yield* vault.deposit(integratorId, usdc("d2", 500n))
      assert.deepStrictEqual(yield* assigned, [{ assigned: 11_250n, assignedTo: 11_500n }])
      yield* addRewards(integratorId, { prefix: "due", users: 10, count: 100, state: "Pending", claimableAt: now })
      yield* matureRewards
      assert.strictEqual((yield* statesOf(integratorId))["Claimable"], 100)
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(integratorId), { AwaitingFunding: 500, Claimable: 100, Pending: 11_500 })
      assert.deepStrictEqual(yield* assigned, [{ assigned: 0n, assignedTo: 11_500n }])
    }))

  it.effect("large claims and assigned rewards do not wait until all users who owe have recovered theirs", () =>
    Effect.gen(function*() {
      yield* workAll
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      const { matureRewards } = yield* Processing
      const sql = yield* SqlClient.SqlClient
      const ofBob = { prefix: "bob", users: "one", count: 1_600, state: "Claimable" } as const
      yield* addRewards(integratorId, { ...ofBob, claimableAt: now })
      yield* vault.claim(integratorId, { ...usdc("c", 1_600n), userId: UserId.make("bob") })
      const owing = { prefix: "owing", users: 1_000, state: "Pending" } as const
      yield* addRewards(integratorId, { ...owing, count: 1_000, claimableAt: now - 1e6 })
      const claimableAt = now + 1e9
      yield* addRewards(integratorId, { ...owing, count: 300, state: "AwaitingFunding", claimableAt })
      yield* addRewards(integratorId, { prefix: "w", users: 50, count: 600, state: "AwaitingFunding", claimableAt })
      yield* addRewards(integratorId, { ...ofAnn, ...pending, count: 10, claimableAt: now - 1e5 })
      yield* sql`UPDATE user_balances SET paid = 1600, claimable = 0
        WHERE integrator_id = ${integratorId} AND user_id = 'bob'`
      yield* sql`UPDATE vault_balances SET held = 1010 + 900, deposits = claims + 1010 + 900, assigned = 900,
        assigned_to = 3500, assigned_at = now() WHERE integrator_id = ${integratorId} AND asset = 'USDC'`
      yield* addOwed(integratorId, owing.prefix, owing.users, 1)
      yield* matureRewards
      const states = sql<{ users: string; state: string; n: number }>`
        SELECT rtrim(user_id, '0123456789') AS users, state, count(*)::int4 AS n FROM rewards
        WHERE integrator_id = ${integratorId} GROUP BY 1, 2 ORDER BY 1, 2`
      assert.deepStrictEqual(yield* states, [
        { users: "ann", state: "Claimable", n: 10 },
        { users: "bob", state: "Claimable", n: 350 },
        { users: "bob", state: "Paid", n: 1_250 },
        { users: "owing", state: "AwaitingFunding", n: 50 },
        { users: "owing", state: "Pending", n: 1_250 },
        { users: "w", state: "AwaitingFunding", n: 350 },
        { users: "w", state: "Pending", n: 250 }
      ])
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 10, Paid: 2_600, Pending: 900 })
    }))

  it.effect("a vault with much overdue work does not delay one whose reward is due later", () =>
    Effect.gen(function*() {
      yield* workAll
      const busy = yield* setUp
      const { integratorId, now } = yield* setUp
      const { matureRewards } = yield* Processing
      yield* addRewards(busy.integratorId, { ...ofAnn, ...pending, count: 600, claimableAt: now - 1e8 })
      yield* matureRewards
      yield* addRewards(integratorId, { ...ofAnn, ...pending, count: 1, claimableAt: now })
      yield* dueAfter(busy.integratorId, integratorId)
      yield* Effect.andThen(matureRewards, matureRewards)
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 1 })
      assert.strictEqual((yield* statesOf(busy.integratorId))["Pending"], 100)
      yield* workAll
    }))

  it.effect("a vault whose work fails is postponed alone: others' rewards mature in the same step or the next", () =>
    Effect.gen(function*() {
      const broken = yield* setUp
      const { integratorId, now } = yield* setUp
      const { matureRewards } = yield* Processing
      const sql = yield* SqlClient.SqlClient
      yield* addRewards(broken.integratorId, { prefix: "x", users: 1, count: 1, state: "Pending", claimableAt: now })
      yield* addRewards(integratorId, { prefix: "y", users: 1, count: 1, state: "Pending", claimableAt: now })
      // its balance is less than its reward: a fault that no retry heals
      yield* sql`UPDATE user_balances SET pending = 0 WHERE integrator_id = ${broken.integratorId}`
      yield* sql`UPDATE vaults SET work_at = '2020-01-01' WHERE integrator_id = ${broken.integratorId}`
      const pause = sql<{ millis: number }>`
        SELECT (extract(epoch FROM work_at - now()) * 1000)::int4 AS millis FROM vaults
        WHERE integrator_id = ${broken.integratorId}`
      yield* matureRewards
      yield* matureRewards
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 1 })
      assert.deepStrictEqual(yield* statesOf(broken.integratorId), { Pending: 1 })
      for (let failure = 0; failure < 10; failure++) {
        yield* sql`UPDATE vaults SET work_at = '2020-01-01' WHERE integrator_id = ${broken.integratorId}`
        yield* matureRewards
      }
      assert.isAbove((yield* pause)[0]?.millis ?? 0, 10_000)
      assert.isAtMost((yield* pause)[0]?.millis ?? 0, 30_000)
      yield* sql`UPDATE user_balances SET pending = 1 WHERE integrator_id = ${broken.integratorId}`
      yield* sql`UPDATE vaults SET work_at = '2020-01-01' WHERE integrator_id = ${broken.integratorId}`
      yield* matureRewards
      assert.deepStrictEqual(yield* statesOf(broken.integratorId), { Claimable: 1 })
    }))
})
