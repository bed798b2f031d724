import { value } from "@card-rewards/core/Database"
import { Quarantine } from "@card-rewards/core/Quarantine"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { addIntegrators, storeClearings } from "./ManyIntegrators.ts"
import { measured } from "./Reads.ts"
import { liveLayer, startMillis } from "./TestLayer.ts"

const services = Quarantine.layer.pipe(Layer.provideMerge(liveLayer))

layer(services, { excludeTestServices: true })("the list of backlogs", (it) => {
  it.effect("has at most 100 integrators: those in quarantine, then by age of events; counts stop at 10,000", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { list } = yield* Quarantine
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

      yield* sql`INSERT INTO spend_event_queue (integrator_id, lane, arrival, user_id, kind, external_transaction_id)
        SELECT 'many-150', 0, 1000000 + n, 'ann', 'clearing', 'c' || n FROM generate_series(1, 20000) n`
      yield* sql`INSERT INTO spend_event_waits (integrator_id, user_id, original_kind, original_id, occurred_at,
          arrival, kind, external_transaction_id)
        SELECT 'many-400', 'ann', 'clearing', 'none', now(), n, 'refund', 'r' || n FROM generate_series(1, 20000) n`
      const [[full, waiting], reads] = yield* measured(list)
      assert.deepInclude(full, { stored: 10_000, waiting: 0 })
      assert.deepInclude(waiting, { stored: 0, waiting: 10_000 })
      assert.isAtMost(reads.rows, 21_500)
    }))
})
