import { Audit } from "@card-rewards/core/Audit"
import { MaxGroupRows } from "@card-rewards/core/Processing/Load/ReadGroups"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { notApplied, processEvents, rewardCount, setUp } from "./Quarantined.ts"
import { measured } from "./Reads.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

const dayMillis = 86_400_000

layer(moneyLayer)("a batch reads", (it) => {
  it.effect("of a partly applied authorization what it has left, whatever else waits", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const sql = yield* SqlClient.SqlClient
      const { integratorId, send } = yield* setUp()
      const refund = { kind: "refund", originalTransactionId: "c", amount: usd(1) }
      yield* Effect.replicateEffect(send(refund), 2_500, { concurrency: 50, discard: true })
      yield* send({ externalTransactionId: "c", authorizationId: "a" })
      while ((yield* processEvents) > 0);
      yield* sql`INSERT INTO spend_event_waits
          (integrator_id, user_id, original_kind, original_id, occurred_at, arrival, kind, external_transaction_id)
        SELECT ${integratorId}, 'user-0', 'clearing', 'none' || n, now(), -n, 'refund', 'none' || n
        FROM generate_series(1, 20000) n`
      yield* send({ kind: "authorization", externalTransactionId: "a" })
      const counts: Array<number> = []
      while (true) {
        const [units, { rows }] = yield* measured(processEvents)
        if (units === 0) break
        counts.push(rows)
      }
      assert.isAtLeast(counts.length, 3)
      assert.isAtMost(Math.max(...counts), 15_000)
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
      // no event of these is stored
      yield* sql`DELETE FROM spend_event_waits WHERE original_id LIKE 'none%'`
    }))

  it.effect("a bounded number of caps and estimates, and of each user all in the end", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const [users, programs] = [6, 10]
      const { integratorId, send, userIds } = yield* setUp({ users, programs })
      const other = yield* setUp()
      const all = (more: object) => Effect.forEach(userIds, (userId) => send(more, userId))
      // a row of usage and one of estimates in each program
      yield* all({})
      yield* all({ kind: "authorization" })
      while ((yield* processEvents) > 0);
      yield* all({})
      yield* other.send()
      yield* all({ kind: "authorization" })
      const counts: Array<number> = []
      const max = 2 * programs + 5
      while (true) {
        const [done, { rows }] = yield* measured(Effect.provideService(processEvents, MaxGroupRows, max))
        if (done === 0) break
        counts.push(rows)
      }
      assert.isAtLeast(counts.length, users)
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
      assert.deepStrictEqual(yield* notApplied(other.integratorId), [])
      assert.strictEqual(yield* rewardCount(integratorId), 2 * users * programs)
      // less than all rows, of which the smallest bound reads one month's
      yield* all({})
      while ((yield* Effect.provideService(processEvents, MaxGroupRows, 1)) > 0);
      assert.strictEqual(yield* rewardCount(integratorId), 3 * users * programs)
      assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
    }))

  it.effect("caps and estimates of each integrator, where one has more than a batch reads", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const heavy = yield* setUp({ users: 6, programs: 10 })
      const others = [yield* setUp(), yield* setUp()]
      const sendAll = Effect.gen(function*() {
        for (const { send, userIds } of [heavy, ...others]) yield* Effect.forEach(userIds, (userId) => send({}, userId))
      })
      // a row of usage in each program
      yield* sendAll
      while ((yield* processEvents) > 0);
      yield* sendAll
      yield* Effect.provideService(processEvents, MaxGroupRows, 15)
      for (const { integratorId } of others) assert.deepStrictEqual(yield* notApplied(integratorId), [])
      assert.lengthOf(yield* notApplied(heavy.integratorId), 5)
      while ((yield* Effect.provideService(processEvents, MaxGroupRows, 15)) > 0);
      assert.deepStrictEqual(yield* notApplied(heavy.integratorId), [])
    }))

  it.effect("a bounded number of caps and estimates also of one user, month by month", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const [months, programs] = [12, 10]
      const { integratorId, send } = yield* setUp({ programs })
      const clock = yield* SandboxClock
      const { now } = yield* clock.get(integratorId)
      const times = Array.from({ length: months }, (_, month) => printTimestamp(now + month * 31 * dayMillis))
      const purchases = Effect.forEach(times, (occurredAt) =>
        Effect.andThen(send({ occurredAt }), send({ kind: "authorization", occurredAt })))
      yield* clock.set(integratorId, instant(now + months * 31 * dayMillis))
      yield* purchases
      while ((yield* processEvents) > 0);
      // each month has a row of usage and one of estimates in each program
      yield* purchases
      // removes the dead rows of earlier tests: scans read them while any database of the server has a transaction
      yield* (yield* SqlClient.SqlClient)`VACUUM`
      const counts: Array<number> = []
      while (true) {
        const read = Effect.provideService(processEvents, MaxGroupRows, 2 * programs)
        const [units, { rows }] = yield* measured(read)
        if (units === 0) break
        counts.push(rows)
      }
      assert.isAtMost(Math.max(...counts), 300)
      assert.isAtLeast(counts.length, months)
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
      assert.strictEqual(yield* rewardCount(integratorId), 2 * months * programs)
      assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
    }))
})
