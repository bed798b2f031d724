import { Processing } from "@card-rewards/core/Processing"
import { Integrators } from "@card-rewards/core/Integrators"
import * as Ledger from "@card-rewards/core/Ledger"
import { Rewards } from "@card-rewards/core/Rewards"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, Reference, UserId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Result } from "effect"
import { SqlClient } from "effect/sql"
import { addOwed, addRewards, dueAfter } from "./BulkRewards.ts"
import { liveMoneyLayer } from "./Spending.ts"

const [ofAnn, pending] = [{ prefix: "ann", users: "one" }, { state: "Pending" }] as const

let made = 0
const setUp = Effect.gen(function*() {
  const integratorId = IntegratorId.make(`large-${made++}`)
  yield* (yield* Integrators).create(integratorId)
  return { integratorId, now: yield* Clock.currentTimeMillis }
})

const usdc = (reference: string, amount: bigint) => ({
  reference: Reference.make(reference),
  amount: { asset: "USDC" as const, amount }
})

const balanceOf = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: string) {
  const { balances } = yield* (yield* Rewards).balance(integratorId, UserId.make(userId))
  const { awaitingFunding, claimable, owed, paid, pending } = balances[0] ?? assert.fail("no balance")
  return { awaitingFunding, claimable, owed, paid, pending }
})

/** Repeats a request while it is Unavailable: each time more due rewards have been applied. */
const asIntegrator = <A, E extends { readonly _tag: string }, R>(request: Effect.Effect<A, E, R>) =>
  Effect.retry(request, { while: (error) => error._tag === "Unavailable", times: 100 })

/** Does the worker's work until there is none. */
const workAll = Effect.gen(function*() {
  const { matureRewards } = yield* Processing
  while ((yield* matureRewards) > 0);
})

const statesOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ state: string; n: number }>`SELECT state, count(*)::int4 AS n FROM rewards
    WHERE integrator_id = ${integratorId} GROUP BY state ORDER BY state`
  return Object.fromEntries(rows.map(({ n, state }) => [state, n]))
})

/** Rows of a table, and of its indexes, that an effect reads, in a transaction of its own. */
const rowsRead = <A, E, R>(tables: ReadonlyArray<string>, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const read = Effect.map(
      sql<{ rows: number }>`SELECT coalesce(sum(pg_stat_get_xact_tuples_fetched(t::regclass)
          + pg_stat_get_xact_tuples_returned(t::regclass)), 0)::int4 AS rows
        FROM unnest(string_to_array(${tables.join(",")}, ',')) AS t`,
      ([row]) => row?.rows ?? 0
    )
    return yield* sql.withTransaction(Effect.gen(function*() {
      const before = yield* read
      yield* effect
      return (yield* read) - before
    }))
  })

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

  it.effect("an operation is as fast beside users who owe and have no due rewards", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      yield* addOwed(integratorId, "poor", 20_000, 7)
      const later = { prefix: "later", users: 5_000, count: 5_000, claimableAt: now + 1e9 }
      yield* addRewards(integratorId, { ...pending, ...later })
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE user_balances SET owed = 7 WHERE integrator_id = ${integratorId}`
      yield* vault.deposit(integratorId, usdc("first", 1n))
      const tables = ["user_balances", "rewards"]
      assert.isAtMost(yield* rowsRead(tables, vault.deposit(integratorId, usdc("second", 1n))), 20)
      assert.isAtMost(yield* rowsRead(tables, balanceOf(integratorId, "later1")), 20)
    }))

  it.effect("a balance read of a user with many unclaimed rewards reads as few rows as any", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      yield* addRewards(integratorId, { ...ofAnn, count: 20_000, state: "Claimable", claimableAt: now })
      yield* addRewards(integratorId, { ...pending, prefix: "bob", users: "one", count: 10, claimableAt: now + 1e9 })
      yield* balanceOf(integratorId, "ann")
      const tables = ["user_balances", "rewards"]
      assert.isAtMost(yield* rowsRead(tables, balanceOf(integratorId, "ann")), 10)
      assert.isAtMost(yield* rowsRead(tables, balanceOf(integratorId, "bob")), 10)
    }))

  it.effect("a claim of any number of rewards shows at once in balance, vault and journal, then reward by reward", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      const sql = yield* SqlClient.SqlClient
      const userId = UserId.make("ann")
      yield* addRewards(integratorId, { ...ofAnn, count: 3_000, state: "Claimable", claimableAt: now })
      yield* addRewards(integratorId, { ...ofAnn, ...pending, count: 600, claimableAt: now - 1e7 })
      assert.isFalse((yield* vault.claim(integratorId, { ...usdc("c", 3_500n), userId })).duplicate)

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
      yield* vault.claim(integratorId, { ...usdc("c2", 1n), userId })
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 99, Paid: 3_501 })
      yield* workAll
      assert.deepStrictEqual(yield* net, [{ paid: 3_501n }])
      assert.lengthOf(yield* sql`SELECT FROM payouts WHERE integrator_id = ${integratorId}`, 0)
      const [emitted] = yield* sql<{ n: number }>`SELECT count(*)::int4 AS n FROM events
        WHERE integrator_id = ${integratorId} AND kind = 'reward.paid'`
      assert.strictEqual(emitted?.n, 3_501)
    }))

  it.effect("a large claim does not pay rewards of its user that become claimable before the worker finishes it", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      const sql = yield* SqlClient.SqlClient
      yield* addRewards(integratorId, { ...ofAnn, count: 1_600, state: "Claimable", claimableAt: now })
      yield* vault.claim(integratorId, { ...usdc("c", 1_600n), userId: UserId.make("ann") })
      // a reward that is older than all that the claim pays, and due only now
      yield* addOlder(integratorId)
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 1, Paid: 1_600 })
      assert.deepStrictEqual(
        yield* sql`SELECT creation FROM rewards WHERE integrator_id = ${integratorId} AND state = 'Claimable'`,
        [{ creation: 1_601n }]
      )
    }))

  it.effect("rewards of others mature while large claims are paid, and those of the claiming users afterwards", () =>
    Effect.gen(function*() {
      yield* workAll
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      const { matureRewards } = yield* Processing
      for (const prefix of ["ann", "bob"]) {
        yield* addRewards(integratorId, { prefix, users: "one", count: 1_600, state: "Claimable", claimableAt: now })
        yield* vault.claim(integratorId, { ...usdc(prefix, 1_600n), userId: UserId.make(prefix) })
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

  it.effect("a deposit funds any number of waiting rewards at once, and others' rewards mature meanwhile", () =>
    Effect.gen(function*() {
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
