import { Integrators } from "@card-rewards/core/Integrators"
import { Processing, QuickLookMillis } from "@card-rewards/core/Processing"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { laneOf } from "@card-rewards/domain/Lane"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { liveMoneyLayer, spendEvent } from "./Spending.ts"

const integratorId = IntegratorId.make("queue")
const userId = UserId.make("ann")
const lane = laneOf(userId)

/** As a worker looks where removed rows make every look slow: up to a point that it remembers it does not look again. */
const lookOn = Effect.flatMap(Processing, ({ processEvents }) => processEvents).pipe(
  Effect.provideService(QuickLookMillis, -1)
)

const isApplied = Effect.fnUntraced(function*(id: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql`SELECT FROM spend_events WHERE integrator_id = ${integratorId} AND external_transaction_id = ${id}
    AND position IS NOT NULL`
  return rows.length === 1
})

layer(liveMoneyLayer, { excludeTestServices: true })("the queue of stored events", (it) => {
  it.effect("an event that is committed long after later ones were processed is processed too", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { submit } = yield* SpendEvents
      yield* (yield* Integrators).create(integratorId)
      yield* (yield* Users).put(integratorId, userId, {})
      const now = yield* Clock.currentTimeMillis
      const send = (id: string) =>
        submit(spendEvent(integratorId, userId, now, { kind: "clearing", externalTransactionId: id }))

      const begun = yield* Deferred.make<void>()
      const end = yield* Deferred.make<void>()
      const late = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`
          WITH stored AS (
            INSERT INTO spend_events (integrator_id, user_id, kind, external_transaction_id, lane, received_at, currency,
              cents, descriptor, mcc, occurred_at)
            VALUES (${integratorId}, ${userId}, 'clearing', 'late', ${lane}, now(), 'USD', 100, 'Shop', '5411', now())
            RETURNING arrival
          )
          INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_id, kind, external_transaction_id)
          SELECT ${integratorId}, ${lane}, arrival, ${userId}, 'clearing', 'late' FROM stored`
        yield* Deferred.succeed(begun, undefined)
        yield* Deferred.await(end)
      })))
      yield* Deferred.await(begun)

      // several samples are taken meanwhile
      const until = now + 2_500
      for (let sent = 0; (yield* Clock.currentTimeMillis) < until; sent++) {
        yield* send(`c${sent}`)
        while (!(yield* isApplied(`c${sent}`))) yield* lookOn
      }
      assert.isFalse(yield* isApplied("late"))
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(late)
      for (let look = 0; look < 50 && !(yield* isApplied("late")); look++) yield* lookOn
      assert.isTrue(yield* isApplied("late"))
    }))
})
