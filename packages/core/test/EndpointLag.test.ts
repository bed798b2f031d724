import { value } from "@card-rewards/core/Database"
import * as Vitals from "@card-rewards/core/Vitals"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addEvents, addIntegrators } from "./ManyIntegrators.ts"
import { measured } from "./Reads.ts"
import { liveLayer } from "./TestLayer.ts"

const minuteMillis = 60_000

/** Asserts that an age is this many minutes, on a slow machine too. */
const assertMinutes = (ageMillis: number, minutes: number) => {
  assert.isAtLeast(ageMillis, minutes * minuteMillis)
  assert.isBelow(ageMillis, (minutes + 2) * minuteMillis)
}

/** Moves the cursors of all endpoints to the last event. */
const catchUp = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  sql`UPDATE webhook_endpoints e SET cursor = v.events FROM vaults v WHERE v.integrator_id = e.integrator_id`)

/** Adds a retry of the first event of an integrator, that began some minutes ago. */
const addRetry = Effect.fnUntraced(function*(
  integratorId: string,
  retry: { readonly round: number; readonly state: string; readonly minutes: number }
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO retries (integrator_id, generation, event, round, state, attempts, revision, created_at,
      next_attempt_at)
    VALUES (${integratorId}, 1, 1, ${value.int4(retry.round)}, ${retry.state}, 1, 1,
      now() - ${value.int4(retry.minutes)} * interval '1 minute',
      CASE WHEN ${retry.state} = 'open' THEN now() + interval '1 hour' END)`
})

layer(liveLayer, { excludeTestServices: true })("the lag of endpoints", (it) => {
  it.effect("has the events and the age of the 100 that are behind longest, of those behind for a minute", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* addIntegrators(500)
      assert.deepStrictEqual((yield* Vitals.read).endpointLags, [])

      // many-n has two events of n minutes; those of many-200 are of this moment, and many-1 is a moment behind
      for (const _ of [1, 2]) yield* addEvents(200)
      yield* sql`UPDATE events SET stored_at = now() WHERE integrator_id IN ('many-1', 'many-200')`
      yield* sql`UPDATE webhook_endpoints SET cursor = 1 WHERE integrator_id = 'many-199'`
      // deleted: its successor gets later events alone
      yield* sql`UPDATE webhook_endpoints SET deleted_at = now() WHERE integrator_id = 'many-198'`
      const { endpointLags, pendingDeliveries } = yield* Vitals.read
      assert.deepStrictEqual(
        endpointLags.map(({ integratorId }) => `${integratorId}`),
        [199, ...Array.from({ length: 99 }, (_, index) => 197 - index)].map((n) => `many-${n}`)
      )
      assert.deepStrictEqual(endpointLags.map(({ events }) => events), [1, ...Array.from({ length: 99 }, () => 2)])
      for (const { ageMillis, integratorId } of endpointLags) assertMinutes(ageMillis, Number(integratorId.slice(5)))
      assert.strictEqual(pendingDeliveries, 397)

      yield* sql`UPDATE webhook_endpoints SET cursor = 2 WHERE integrator_id <> 'many-7'`
      assert.deepStrictEqual((yield* Vitals.read).endpointLags.map(({ integratorId }) => `${integratorId}`), ["many-7"])
      yield* catchUp
      const vitals = yield* Vitals.read
      assert.deepInclude(vitals, { endpointLags: [], deliveryLagMillis: 0, pendingDeliveries: 0 })
    }))

  it.effect("of all endpoints includes their open retries, the oldest first, and no closed ones", () =>
    Effect.gen(function*() {
      const lagMinutes = Effect.map(Vitals.read, (vitals) => Math.floor(vitals.deliveryLagMillis / minuteMillis))
      yield* addEvents(3)
      yield* catchUp
      yield* addRetry("many-1", { round: 1, state: "delivered", minutes: 90 })
      yield* addRetry("many-2", { round: 1, state: "exhausted", minutes: 90 })
      yield* addRetry("many-3", { round: 2, state: "cancelled", minutes: 90 })
      assert.strictEqual(yield* lagMinutes, 0)
      yield* addRetry("many-1", { round: 2, state: "open", minutes: 20 })
      assert.strictEqual(yield* lagMinutes, 20)
      yield* addRetry("many-4", { round: 1, state: "open", minutes: 30 })
      assert.strictEqual(yield* lagMinutes, 30)
      yield* addRetry("many-4", { round: 3, state: "open", minutes: 40 })
      assert.strictEqual(yield* lagMinutes, 40)
      yield* addRetry("many-4", { round: 4, state: "open", minutes: 10 })
      assert.strictEqual(yield* lagMinutes, 40)
      // the cursor has passed them
      assert.deepStrictEqual((yield* Vitals.read).endpointLags, [])
    }))

  it.effect("costs the same beside 20,000 retries, and 20,000 events that were not passed", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM retries`
      yield* sql`UPDATE webhook_endpoints SET work_at = NULL`
      yield* addEvents(1)
      for (let time = 0; time < 10; time++) yield* measured(Vitals.read)
      const [, few] = yield* measured(Vitals.read)
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, reward, state, attempts, revision,
          created_at)
        SELECT 'many-1', 1, n, 1, n, 'exhausted', 13, 1, now() FROM generate_series(1, 20000) n`
      yield* sql`INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
        SELECT 'many-1', n, 'evt_' || n, 'webhook.ping', now(), now(), '{}' FROM generate_series(100, 20000) n`
      const [, many] = yield* measured(Vitals.read)
      assert.isAtMost(many.rows, few.rows + 100)
      assert.isAtMost(many.pages, few.pages + 200)
    }))
})
