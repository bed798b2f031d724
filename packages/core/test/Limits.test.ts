import { Backlog } from "@card-rewards/core/Backlog"
import { Explanations } from "@card-rewards/core/Explanations"
import { Integrators } from "@card-rewards/core/Integrators"
import { Programs } from "@card-rewards/core/Programs"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { IntegratorId, ProgramId, UserId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { measured } from "./Reads.ts"
import { liveMoneyLayer } from "./Spending.ts"

const services = Layer.mergeAll(Backlog.layer, Explanations.layer).pipe(Layer.provideMerge(liveMoneyLayer))

const userId = UserId.make("ann")
let made = 0

/** An integrator with one user and a program of 1 % without a holding period. */
const setUp = Effect.gen(function*() {
  const integratorId = IntegratorId.make(`limits-${made++}`)
  yield* (yield* Integrators).create(integratorId)
  yield* (yield* Users).put(integratorId, userId, {})
  const now = yield* Clock.currentTimeMillis
  const program = definition(now + 400_000, { holdingPeriodDays: 0 })
  yield* (yield* Programs).publish(integratorId, ProgramId.make("p"), 1, program, [])
  yield* (yield* SandboxClock).set(integratorId, instant(now + 500_000))
  return { integratorId, at: now + 500_000 }
})

layer(services, { excludeTestServices: true })("limits", (it) => {
  it.effect("an explanation shows the first 1,000 refunds of a purchase that has more", () =>
    Effect.gen(function*() {
      const { at, integratorId } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const { submit } = yield* SpendEvents
      const send = (kind: string, externalTransactionId: string, more: object) =>
        submit(spendEvent(integratorId, userId, at, { kind, externalTransactionId, ...more }))
      yield* send("clearing", "c", { amount: usd(100_000) })
      yield* send("refund", "r0", { originalTransactionId: "c", amount: usd(100) })
      yield* processAll
      yield* sql`INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at,
          currency, cents, descriptor, mcc, occurred_at, original_id, position)
        SELECT integrator_id, user_id, kind, 'r' || n, lane, received_at, currency, 1, descriptor, mcc, occurred_at,
          original_id, position + n FROM spend_events, generate_series(1, 1500) n
        WHERE integrator_id = ${integratorId} AND kind = 'refund'`
      const { explain } = yield* Explanations
      const { refunds } = yield* explain(integratorId, userId, `rw:${integratorId}:ann:clearing:c:p`)
      assert.deepStrictEqual(refunds.map(({ externalTransactionId }) => externalTransactionId),
        Array.from({ length: 1_000 }, (_, n) => `r${n}`))
      assert.deepStrictEqual([refunds[0]?.reduction, refunds[1]?.reduction], ["10000", "100"])
    }))

  it.effect("a backlog is counted, and its oldest event found, by index scans that do not read the events", () =>
    Effect.gen(function*() {
      const { at, integratorId } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const { submit } = yield* SpendEvents
      const other = UserId.make("bob")
      yield* (yield* Users).put(integratorId, other, {})
      yield* submit(spendEvent(integratorId, other, at, { kind: "clearing", externalTransactionId: "first" }))
      // all in one lane, the first of them received after bob's
      yield* sql`WITH stored AS (
          INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
            cents, descriptor, mcc, occurred_at)
          SELECT integrator_id, ${userId}, kind, 'x' || n, lane, received_at + n * interval '1 second', currency, cents,
            descriptor, mcc, occurred_at FROM spend_events, generate_series(1, 20000) n
          WHERE integrator_id = ${integratorId}
          RETURNING *)
        INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
        SELECT integrator_id, 15, arrival, ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id] FROM stored`
      const [{ received } = { received: 0 }] = yield* sql<{ received: number }>`
        SELECT received_at AS received FROM spend_events WHERE integrator_id = ${integratorId} AND user_id = ${other}`
      const [size, { rows }] = yield* measured((yield* Backlog).size(integratorId))
      assert.deepStrictEqual(size, { stored: 20_001, waiting: 0, oldestStoredAt: instant(received) })
      // each counted row, and the first event of each lane
      assert.isAtMost(rows - size.stored, 32)
    }))
})
