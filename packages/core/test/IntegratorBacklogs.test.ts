import { value } from "@card-rewards/core/Database"
import { IntegratorBacklogs } from "@card-rewards/core/IntegratorBacklogs"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { addEvents, addIntegrators, storeClearings } from "./ManyIntegrators.ts"
import { measured } from "./Reads.ts"
import { liveLayer, startMillis } from "./TestLayer.ts"

const services = IntegratorBacklogs.layer.pipe(Layer.provideMerge(liveLayer))

/** Adds retries with some numbers, whose deliveries began some minutes ago. */
const addRetries = Effect.fnUntraced(function*(
  integratorId: string,
  retries: { readonly from: number; readonly to: number; readonly state: string; readonly minutes: number }
) {
  const { from, minutes, state, to } = retries
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO retries (integrator_id, generation, event, round, state, attempts, revision, created_at,
      next_attempt_at)
    SELECT ${integratorId}, 1, n, 1, ${state}, 1, 1, now() - ${value.int4(minutes)} * interval '1 minute',
      CASE WHEN ${state} = 'open' THEN now() + interval '1 hour' END
    FROM generate_series(${value.int4(from)}, ${value.int4(to)}) n`
})

layer(services, { excludeTestServices: true })("the list of backlogs", (it) => {
  it.effect("has at most 100 integrators: those in quarantine, then by age of events; counts stop at 10,000", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { list } = yield* IntegratorBacklogs
      yield* addIntegrators(500)
      assert.deepStrictEqual(yield* list, [])

      // many-150 has the oldest event; it is in quarantine, as is one without events
      yield* storeClearings(150)
      const add = (id: string, reason: string, failures: number, seconds: number) =>
        sql`INSERT INTO quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
          VALUES (${id}, ${reason}, 'it failed', ${value.int4(failures)},
            ${value.timestamptz(startMillis - seconds * 1_000)}, ${value.timestamptz(startMillis)})`
      yield* add("many-400", "behind", 1, 1)
      yield* add("many-150", "locked", 3, 2)
      const [first, second, ...others] = yield* list
      const oldest = first?.oldestStoredMillis ?? 0
      assert.isTrue(oldest >= 150 * 60_000 && oldest < 160 * 60_000, `${oldest}`)
      assert.deepStrictEqual(first, {
        integratorId: IntegratorId.make("many-150"),
        stored: 1,
        waiting: 0,
        oldestStoredMillis: oldest,
        deliveries: { lag: 0, retries: 0 },
        quarantine: {
          reason: "locked",
          error: "it failed",
          failures: 3,
          since: startMillis - 2_000,
          nextAttemptAt: startMillis
        }
      })
      assert.deepInclude(second, { integratorId: IntegratorId.make("many-400"), stored: 0, waiting: 0 })
      assert.isFalse(second !== undefined && "oldestStoredMillis" in second)
      assert.strictEqual(second?.quarantine?.reason, "behind")
      const expected = Array.from({ length: 98 }, (_, index) => `many-${149 - index}`)
      assert.deepStrictEqual(others.map(({ integratorId }) => `${integratorId}`), expected)
      assert.isTrue(others.every(({ quarantine, stored, waiting }) =>
        quarantine === undefined && stored === 1 && waiting === 0))

      yield* sql`INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
        SELECT 'many-150', 0, 1000000 + n, ARRAY['ann'], ARRAY['clearing'], ARRAY['c' || n]
        FROM generate_series(1, 20000) n`
      yield* sql`INSERT INTO spend_event_waits (integrator_id, user_id, original_kind, original_id, occurred_at,
          arrival, kind, external_transaction_id)
        SELECT 'many-400', 'ann', 'clearing', 'none', now(), n, 'refund', 'r' || n FROM generate_series(1, 20000) n`
      const [[full, waiting], reads] = yield* measured(list)
      assert.deepInclude(full, { stored: 10_000, waiting: 0 })
      assert.deepInclude(waiting, { stored: 0, waiting: 10_000 })
      assert.isAtMost(reads.rows, 21_700)
    }))

  it.effect("has 100 more with undelivered events, the oldest first, and the deliveries of those in quarantine", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { list } = yield* IntegratorBacklogs
      const names = Effect.map(list, (all) => all.map(({ integratorId }) => `${integratorId}`))
      // leaves no dead rows, which would be read until they can be removed
      yield* sql`TRUNCATE spend_event_queue, spend_event_waits, quarantine`
      assert.deepStrictEqual(yield* list, [])

      // many-n has two events of n minutes; many-10 is in quarantine, and its endpoint is not among the 100
      for (const _ of [1, 2]) yield* addEvents(150)
      yield* sql`INSERT INTO quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
        VALUES ('many-10', 'failing', 'it failed', 1, now(), now())`
      // many-120 has stored spend events, which are older than its events
      yield* sql`INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_ids, kinds, external_transaction_ids)
        SELECT integrator_id, lane, arrival, ARRAY[user_id], ARRAY[kind], ARRAY[external_transaction_id]
        FROM spend_events
        WHERE integrator_id = 'many-120'`
      yield* sql`UPDATE spend_events SET received_at = received_at - interval '1 hour'
        WHERE integrator_id = 'many-120'`
      // the cursor of many-400 has passed its event, which is a retry for ten hours; its breaker is open
      yield* addRetries("many-400", { from: 1, to: 1, state: "open", minutes: 600 })
      yield* addRetries("many-400", { from: 2, to: 3, state: "open", minutes: 5 })
      yield* addRetries("many-400", { from: 4, to: 5, state: "exhausted", minutes: 900 })
      const probeAt = value.timestamptz(startMillis)
      yield* sql`UPDATE webhook_endpoints SET failures = 11, work_at = ${probeAt}, probe_at = ${probeAt}
        WHERE integrator_id = 'many-400'`
      const expected = [10, 400, 120, ...Array.from({ length: 99 }, (_, index) => 150 - index)]
      assert.deepStrictEqual(yield* names, [...new Set(expected)].map((n) => `many-${n}`))
      const [quarantined, down, both, behind] = yield* list
      assert.containsSubset(quarantined, { quarantine: { reason: "failing" }, deliveries: { lag: 2, retries: 0 } })
      const { oldestRetryMillis = 0, ...rest } = down?.deliveries ?? assert.fail()
      assert.deepStrictEqual(rest, { lag: 0, retries: 3, nextProbeAt: startMillis })
      assert.isTrue(oldestRetryMillis >= 600 * 60_000 && oldestRetryMillis < 605 * 60_000, `${oldestRetryMillis}`)
      assert.containsSubset(both, { stored: 1, deliveries: { lag: 2, retries: 0 } })
      const { oldestLagMillis = 0 } = behind?.deliveries ?? assert.fail()
      assert.isTrue(oldestLagMillis >= 150 * 60_000 && oldestLagMillis < 155 * 60_000, `${oldestLagMillis}`)
      assert.hasAllKeys(behind?.deliveries, ["lag", "oldestLagMillis", "retries"])

      yield* addRetries("many-400", { from: 101, to: 20_000, state: "open", minutes: 5 })
      yield* addRetries("many-400", { from: 20_001, to: 40_000, state: "delivered", minutes: 5 })
      const [full, reads] = yield* measured(list)
      assert.strictEqual(full[1]?.deliveries?.retries, 10_000)
      assert.isAtMost(reads.rows, 13_000)
    }))
})
