import { maxUnits } from "@card-rewards/core/Processing/Budget"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { notApplied, processEvents, rewardCount, setUp } from "./Quarantined.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

/** As many as have different binary digits in seven places. */
const mccs = Array.from({ length: 128 }, (_, number) => `${number}`.padStart(4, "0"))

layer(moneyLayer)("the budget of a batch", (it) => {
  it.effect("bounds the lists that a batch stores of programs in which clearings earned nothing", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const sql = yield* SqlClient.SqlClient
      // the longest ids; which of the programs exclude a purchase is what its MCC says in binary digits
      const { integratorId, send } = yield* setUp({
        programs: 50,
        idOf: (index) => "\u{1F600}".repeat(126) + `${index + 10}`,
        changesOf: (index) => ({
          baseRate: 0,
          exclusions: { mccs: mccs.filter((_, number) => index < 7 && (number >> index) % 2 === 1), merchants: [] }
        })
      })
      yield* Effect.forEach(mccs, (mcc) => send({ merchant: { descriptor: "Shop", mcc } }))
      let before = 0
      while ((yield* processEvents) > 0) {
        const [lists] = yield* sql<{ bytes: number }>`SELECT coalesce(sum(octet_length(programs)), 0)::int AS bytes
          FROM unearned_lists WHERE integrator_id = ${integratorId}`
        const { bytes = before } = lists ?? {}
        assert.isAtMost(bytes - before, (maxUnits + 30) * 1_024)
        before = bytes
      }
      assert.isAbove(before, 1.2 * maxUnits * 1_024)
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
    }))

  it.effect("bounds the bytes of the ids of the rewards that a batch stores", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const [programs, clearings] = [25, 90]
      const longest = (index: number) => "\u{1F600}".repeat(126) + `${index + 10}`
      const { integratorId, send } = yield* setUp({ programs, idOf: longest })
      for (let index = 0; index < clearings; index++) yield* send({ externalTransactionId: longest(index) })
      let before = 0
      while ((yield* processEvents) > 0) {
        const rewards = yield* rewardCount(integratorId)
        // two ids of 506 bytes and two short ones
        assert.isAtMost((rewards - before) * 2 * 506, maxUnits * 512)
        before = rewards
      }
      assert.strictEqual(before, programs * clearings)
    }))

  it.effect("bounds the campaigns that a batch evaluates", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const [programs, clearings] = [50, 250]
      const campaigns = Array.from({ length: 200 }, (_, index) => ({
        id: `c${index}`,
        startsAt: "2020-01-01T00:00:00Z",
        endsAt: "2090-01-01T00:00:00Z",
        bonusRate: 0
      }))
      const { integratorId, send } = yield* setUp({ programs, changesOf: () => ({ baseRate: 0, campaigns }) })
      yield* Effect.replicateEffect(send(), clearings, { concurrency: 50, discard: true })
      let left = clearings
      while ((yield* processEvents) > 0) {
        const { length } = yield* notApplied(integratorId)
        assert.isAtMost((left - length) * programs * campaigns.length, maxUnits * 1_000)
        left = length
      }
      assert.strictEqual(left, 0)
    }))
})
