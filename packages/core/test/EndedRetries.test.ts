import * as Quarantine from "@card-rewards/core/Processing/Quarantine"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { delayInserts, holdRows, notApplied, quarantineOf, retryQuarantined, setUp } from "./Quarantined.ts"
import { setSlot } from "./SlotState.ts"
import { moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

/** An integrator with a stored event, whose retry is due. */
const quarantined = Effect.gen(function*() {
  yield* TestClock.setTime(startMillis)
  const culprit = yield* setUp()
  yield* culprit.send()
  yield* Quarantine.add(culprit.integratorId, { reason: "failing", error: "of the test" })
  yield* TestClock.adjust(250)
  return culprit
})

layer(moneyLayer)("an integrator in quarantine", (it) => {
  it.effect("is retried at once by another worker after the one that retried it was stopped", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId } = yield* quarantined
      const endDelay = yield* delayInserts(integratorId)
      const retry = yield* Effect.forkChild(retryQuarantined)
      // on a busy machine as well: the clock of the test stands still
      const sleeping = sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
      yield* Effect.repeat(sleeping, { until: (rows) => rows.length > 0 })
      assert.strictEqual((yield* quarantineOf(integratorId))?.pauseMillis, 90_000)
      yield* Fiber.interrupt(retry)
      assert.deepInclude(yield* quarantineOf(integratorId), { failures: 1, pauseMillis: 0 })
      yield* Effect.repeat(sleeping, { until: (rows) => rows.length === 0 })
      yield* endDelay
      yield* retryQuarantined
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
      assert.isUndefined(yield* quarantineOf(integratorId))
    }))

  it.effect("is retried at once after a move of its slot that is given up, which began during a retry", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId } = yield* quarantined
      const endHold = yield* holdRows("lanes", integratorId)
      const retry = yield* Effect.forkChild(retryQuarantined)
      const blocked = sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      yield* Effect.repeat(blocked, { until: (rows) => rows.length > 0 })
      yield* setSlot(integratorId, "leaving")
      yield* endHold
      yield* Fiber.join(retry)
      yield* retryQuarantined
      assert.strictEqual((yield* quarantineOf(integratorId))?.pauseMillis, 90_000)
      yield* setSlot(integratorId, "owned")
      yield* retryQuarantined
      assert.deepStrictEqual(yield* notApplied(integratorId), [])
      assert.isUndefined(yield* quarantineOf(integratorId))
    }))

  it.effect("is retried after a pause, as after other failures, where its lanes cannot be read", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { integratorId } = yield* quarantined
      yield* sql`ALTER TABLE spend_event_queue RENAME TO queue_away`
      yield* Effect.ignoreCause(retryQuarantined)
      yield* sql`ALTER TABLE queue_away RENAME TO spend_event_queue`
      assert.deepInclude(yield* quarantineOf(integratorId), { failures: 2, pauseMillis: 500 })
      yield* TestClock.adjust(500)
      yield* retryQuarantined
      assert.isUndefined(yield* quarantineOf(integratorId))
    }))
})
