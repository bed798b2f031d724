import { Vault } from "@card-rewards/core/Vault"
import { UserId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { addOwed, addRewards } from "./BulkRewards.ts"
import { balanceOf, ofAnn, pending, setUp, usdc } from "./LargeVaults.ts"
import { measuredAlone } from "./Reads.ts"
import { moneyServices } from "./Spending.ts"
import { liveSessionLayer } from "./TestLayer.ts"

const services = moneyServices.pipe(Layer.provideMerge(liveSessionLayer))

/** How many rows an effect reads. */
const rowsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.map(measuredAlone(effect), ([, { rows }]) => rows)

layer(services, { excludeTestServices: true })("of a vault of any size", (it) => {
  it.effect("an operation reads as little beside users who owe and have no due rewards", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const vault = yield* Vault
      yield* addOwed(integratorId, "poor", 20_000, 7)
      const later = { prefix: "later", users: 5_000, count: 5_000, claimableAt: now + 1e9 }
      yield* addRewards(integratorId, { ...pending, ...later })
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE user_balances SET owed = 7 WHERE integrator_id = ${integratorId}`
      yield* vault.deposit(integratorId, usdc("first", 1n))
      assert.isAtMost(yield* rowsOf(vault.deposit(integratorId, usdc("second", 1n))), 20)
      assert.isAtMost(yield* rowsOf(balanceOf(integratorId, "later1")), 20)
    }))

  it.effect("a balance read of a user with many unclaimed rewards reads as few rows as any", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      yield* addRewards(integratorId, { ...ofAnn, count: 20_000, state: "Claimable", claimableAt: now })
      yield* addRewards(integratorId, { ...pending, prefix: "bob", users: "one", count: 10, claimableAt: now + 1e9 })
      yield* balanceOf(integratorId, "ann")
      assert.isAtMost(yield* rowsOf(balanceOf(integratorId, "ann")), 10)
      assert.isAtMost(yield* rowsOf(balanceOf(integratorId, "bob")), 10)
    }))

  it.effect("a claim reads few of the rewards that it does not pay", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      yield* addRewards(integratorId, { ...ofAnn, count: 40_000, state: "Claimable", claimableAt: now })
      const claim = (yield* Vault).claim(integratorId, { ...usdc("c", 1_400n), userId: UserId.make("ann") })
      assert.isAtMost(yield* rowsOf(claim), 15_000)
    }))
})
