import { EventsStored } from "@card-rewards/core/EventsStored"
import { Vault } from "@card-rewards/core/Vault"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { setUp, usdc } from "./LargeVaults.ts"
import { liveMoneyLayer } from "./Spending.ts"

layer(liveMoneyLayer, { excludeTestServices: true })("transactions that store events", (it) => {
  it.effect("name their integrators once they are committed, and not where they are rolled back", () =>
    Effect.gen(function*() {
      const [{ integratorId }, sql, vault] = [yield* setUp, yield* SqlClient.SqlClient, yield* Vault]
      const named: Array<unknown> = []
      const deposit = (reference: string) =>
        vault.deposit(integratorId, usdc(reference, 1n)).pipe(
          Effect.provideService(EventsStored, (integratorIds) => void named.push(integratorIds))
        )
      yield* deposit("d")
      assert.deepStrictEqual(named, [[integratorId]])
      // a repeat stores none
      yield* deposit("d")
      assert.lengthOf(named, 1)
      yield* sql`ALTER TABLE events ADD CONSTRAINT refused CHECK (false) NOT VALID`
      yield* Effect.exit(deposit("d2"))
      yield* sql`ALTER TABLE events DROP CONSTRAINT refused`
      assert.lengthOf(named, 1)
      yield* deposit("d2")
      assert.deepStrictEqual(named, [[integratorId], [integratorId]])
    }))
})
