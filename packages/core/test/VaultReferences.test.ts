import { Vault } from "@card-rewards/core/Vault"
import { UserId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { addRewards } from "./BulkRewards.ts"
import { setUp, usdc } from "./LargeVaults.ts"
import { liveMoneyLayer } from "./Spending.ts"

layer(liveMoneyLayer, { excludeTestServices: true })("a reference of a vault's movement", (it) => {
  it.effect("is in conflict with another asset, and a claim's with another user", () =>
    Effect.gen(function*() {
      const { integratorId, now } = yield* setUp
      const { claim, deposit } = yield* Vault
      yield* addRewards(integratorId, { prefix: "u", users: 2, count: 8, state: "Claimable", claimableAt: now })
      yield* deposit(integratorId, usdc("d", 1n))
      const euros = { ...usdc("d", 1n), amount: { asset: "EURe" as const, amount: 1n } }
      assert.strictEqual((yield* Effect.flip(deposit(integratorId, euros)))._tag, "SimulationConflict")
      const of = (userId: string) => claim(integratorId, { ...usdc("c", 1n), userId: UserId.make(userId) })
      assert.isFalse((yield* of("u1")).duplicate)
      assert.isTrue((yield* of("u1")).duplicate)
      assert.strictEqual((yield* Effect.flip(of("u2")))._tag, "SimulationConflict")
    }))
})
