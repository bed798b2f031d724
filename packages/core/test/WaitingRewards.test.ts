import { value } from "@card-rewards/core/Database"
import { Integrators } from "@card-rewards/core/Integrators"
import { Processing } from "@card-rewards/core/Processing"
import { IntegratorId, type UserId } from "@card-rewards/domain/Ids"
import { laneOf } from "@card-rewards/domain/Lane"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addRewards } from "./BulkRewards.ts"
import { processEvents, setUp } from "./Quarantined.ts"
import { measured } from "./Reads.ts"
import { liveMoneyLayer } from "./Spending.ts"

layer(liveMoneyLayer, { excludeTestServices: true })("rewards that wait for money", (it) => {
  it.effect("each recovery funds the next of them, and reads on where the one before it ended", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { matureRewards } = yield* Processing
      const integratorId = IntegratorId.make("waiting")
      yield* (yield* Integrators).create(integratorId)
      const now = yield* Clock.currentTimeMillis
      const [recoveries, each, waiting] = [200, 300, 70_000]
      yield* addRewards(integratorId, {
        prefix: "ann", users: "one", count: recoveries, state: "Pending", claimableAt: now
      })
      yield* sql`UPDATE rewards SET earned = ${value.int4(each)}, amount = ${value.int4(each)}
        WHERE integrator_id = ${integratorId}`
      const claimableAt = now + 1e9
      yield* addRewards(integratorId, { prefix: "w", users: 50, count: waiting, state: "AwaitingFunding", claimableAt })
      yield* sql`UPDATE user_balances SET owed = 1e6 WHERE integrator_id = ${integratorId} AND user_id = 'ann'`
      const assigned = sql<{ funded: bigint; free: bigint }>`
        SELECT assigned_to AS funded, free FROM vault_balances
        WHERE integrator_id = ${integratorId} AND asset = 'USDC'`
      const [, { rows }] = yield* measured(matureRewards)
      assert.deepStrictEqual(yield* assigned, [{ funded: BigInt(recoveries + recoveries * each), free: 0n }])
      // each of the rewards that were funded is read once
      assert.isAtMost(rows, 2 * recoveries * each)
    }))

  it.effect("are in the order in which their purchases arrived, whatever lanes their users are in", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId, send, userIds } = yield* setUp({ users: 12 })
      const sent = userIds.toSorted((one, other) => laneOf(other) - laneOf(one))
      for (const userId of sent) yield* send({}, userId)
      while ((yield* processEvents) > 0);
      const rows = yield* sql<{ userId: UserId }>`
        SELECT user_id FROM rewards WHERE integrator_id = ${integratorId} ORDER BY creation`
      assert.deepStrictEqual(rows.map(({ userId }) => userId), sent)
    }))
})
