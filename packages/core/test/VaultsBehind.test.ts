import { value } from "@card-rewards/core/Database"
import * as Ledger from "@card-rewards/core/Ledger"
import { Vault } from "@card-rewards/core/Vault"
import { UserId } from "@card-rewards/domain/Ids"
import { dayMillis } from "@card-rewards/domain/Time"
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addOwed, addRewards } from "./BulkRewards.ts"
import { balanceOf, ofAnn, setUp, statesOf, usdc, workAll } from "./LargeVaults.ts"
import { liveMoneyLayer } from "./Spending.ts"

/** A vault with more due rewards of users who owe than one request applies, and some of `ann`, who owes nothing. */
const setUpBehind = Effect.fnUntraced(function*(ofAnnDue: number) {
  const { integratorId, now } = yield* setUp
  yield* addRewards(integratorId, { prefix: "owing", users: 100, count: 100, state: "Pending", claimableAt: now - 1e6 })
  yield* addRewards(integratorId, { ...ofAnn, count: ofAnnDue, state: "Pending", claimableAt: now })
  yield* addOwed(integratorId, "owing", 100, 1)
  return { integratorId, now }
})

/** A request applies 10 due rewards, and then fails where it depends on more of them. */
const onePiece = Effect.provide(Context.make(Ledger.PieceSize, 10).pipe(Context.add(Ledger.CatchUpMillis, 0)))

const claimOf = (reference: string, amount: bigint) => ({ ...usdc(reference, amount), userId: UserId.make("ann") })

const tagOf = Effect.match({
  onFailure: ({ _tag }: { readonly _tag: string }) => _tag,
  onSuccess: ({ duplicate }: { readonly duplicate: boolean }) => duplicate ? "duplicate" : "done"
})

layer(liveMoneyLayer, { excludeTestServices: true })("beside many due rewards of users who owe", (it) => {
  it.effect("claims of other users are answered at once", () =>
    Effect.gen(function*() {
      const { integratorId } = yield* setUpBehind(2)
      const vault = yield* Vault
      assert.strictEqual(yield* onePiece(tagOf(vault.claim(integratorId, claimOf("c", 1n)))), "done")
      assert.strictEqual(yield* onePiece(tagOf(vault.claim(integratorId, claimOf("c2", 2n)))), "SimulationRefused")
      // one piece beside the claim; that of the refused one is rolled back
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 1, Paid: 11, Pending: 90 })
      yield* workAll
      const [balance] = (yield* vault.get(integratorId)).balances
      assert.deepStrictEqual(balance, { asset: "USDC", held: 101n, free: 100n })
      assert.deepStrictEqual(yield* statesOf(integratorId), { Claimable: 1, Paid: 101 })
    }))

  it.effect("claims of users whose own due rewards are left wait for these", () =>
    Effect.gen(function*() {
      const { integratorId } = yield* setUpBehind(12)
      const vault = yield* Vault
      assert.strictEqual(yield* onePiece(tagOf(vault.claim(integratorId, claimOf("c", 12n)))), "Unavailable")
      assert.strictEqual(yield* onePiece(tagOf(vault.claim(integratorId, claimOf("c", 12n)))), "done")
    }))

  it.effect("nothing is due before its time where a clock that was ahead has begun a later day of the vault", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const tomorrow = Math.floor(now / dayMillis) + 1
      const due = { state: "Pending", claimableAt: tomorrow * dayMillis } as const
      yield* addRewards(integratorId, { prefix: "owing", users: 1, count: 1, ...due })
      yield* addOwed(integratorId, "owing", 1, 1)
      yield* addRewards(integratorId, { ...ofAnn, count: 1, ...due })
      yield* sql`UPDATE vault_balances SET day = ${value.int4(tomorrow)} WHERE integrator_id = ${integratorId}`
      const vault = yield* Vault
      yield* vault.deposit(integratorId, usdc("d", 1n))
      yield* workAll
      assert.deepStrictEqual(yield* statesOf(integratorId), { Pending: 2 })
      assert.strictEqual(yield* tagOf(vault.claim(integratorId, claimOf("c", 1n))), "SimulationRefused")
      // the work on assigned money goes by the clock, too, and entries by the vault's days
      yield* addRewards(integratorId, { prefix: "w", users: 1, count: 2, state: "AwaitingFunding", claimableAt: now })
      yield* Effect.provideService(vault.deposit(integratorId, usdc("e", 1n)), Ledger.ServedAtOnce, 0)
      const [row] = yield* sql<{ readonly isDue: boolean; readonly recordedAt: number }>`
        SELECT work_at <= now() AS is_due, recorded_at FROM vaults JOIN journal USING (integrator_id)
        WHERE integrator_id = ${integratorId} AND reference = 'e' AND to_account = 'assigned'`
      assert.deepStrictEqual(row, { isDue: true, recordedAt: tomorrow * dayMillis })
    }))

  it.effect("repeated requests are answered at once", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      yield* vault.deposit(integratorId, usdc("d", 5n))
      yield* addRewards(integratorId, { prefix: "owing", users: 50, count: 50, state: "Pending", claimableAt: now })
      const waiting = { prefix: "w", users: "one", count: 9, state: "AwaitingFunding" } as const
      yield* addRewards(integratorId, { ...waiting, claimableAt: now })
      yield* addOwed(integratorId, "owing", 50, 1)
      const repeated = onePiece(tagOf(vault.deposit(integratorId, usdc("d", 5n))))
      assert.strictEqual(yield* repeated, "duplicate")
      const conflict = onePiece(tagOf(vault.withdraw(integratorId, usdc("d", 5n))))
      assert.strictEqual(yield* conflict, "SimulationConflict")
    }))

  it.effect("what moves the money that these return, or what it may fund, is answered after them", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUpBehind(2)
      const vault = yield* Vault
      assert.strictEqual(yield* onePiece(tagOf(vault.withdraw(integratorId, usdc("w", 1n)))), "Unavailable")
      const waiting = { ...ofAnn, count: 1_000, state: "AwaitingFunding", claimableAt: now } as const
      yield* addRewards(integratorId, waiting)
      yield* addOwed(integratorId, "owing", 100, 1)
      assert.strictEqual(yield* onePiece(tagOf(vault.deposit(integratorId, usdc("d", 5n)))), "Unavailable")
      assert.strictEqual(yield* onePiece(tagOf(vault.claim(integratorId, claimOf("c", 1n)))), "Unavailable")
      yield* workAll
      assert.strictEqual((yield* balanceOf(integratorId, "ann")).claimable, 102n)
    }))
})
