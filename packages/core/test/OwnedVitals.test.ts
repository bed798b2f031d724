import { IntegratorBacklogs } from "@card-rewards/core/IntegratorBacklogs"
import * as Vitals from "@card-rewards/core/Vitals"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { addEvents, addIntegrators, storeClearings } from "./ManyIntegrators.ts"
import { setSlot } from "./SlotState.ts"
import { liveLayer } from "./TestLayer.ts"

const services = IntegratorBacklogs.layer.pipe(Layer.provideMerge(liveLayer))

layer(services, { excludeTestServices: true })("the figures of a cell", (it) => {
  it.effect("leave out the rows of slots that it does not own", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { list } = yield* IntegratorBacklogs
      yield* addIntegrators(2)
      yield* storeClearings(2)
      yield* addEvents(2)
      yield* sql`UPDATE vault_balances SET held = 100, free = 100, deposits = 100 WHERE asset = 'USDC'`
      yield* sql`INSERT INTO quarantine (integrator_id, reason, error, failures, since, next_attempt_at)
        SELECT integrator_id, 'failing', '', 1, now(), now() FROM integrators`
      yield* sql`INSERT INTO retries (integrator_id, generation, event, round, state, attempts, revision, created_at,
          next_attempt_at)
        SELECT integrator_id, 1, 1, 1, 'open', 1, 1, now() - interval '90 minutes', now() FROM integrators`
      const figures = Effect.gen(function*() {
        const { deliveryLagMillis, endpointLags, oldestStoredMillis, pendingDeliveries, quarantined, storedEvents } =
          yield* Vitals.read
        const money = (yield* Vitals.readMoney).find(({ asset }) => asset === "USDC")
        return {
          counts: [storedEvents, pendingDeliveries, quarantined.failing, Number(money?.held), (yield* list).length],
          lags: endpointLags.map(({ integratorId }) => `${integratorId}`),
          hasLag: deliveryLagMillis > 0,
          hasStored: oldestStoredMillis > 0
        }
      })
      const both = yield* figures
      assert.deepStrictEqual(both.counts, [2, 4, 2, 200, 2])
      yield* setSlot("many-1", "left")
      assert.deepStrictEqual((yield* figures).counts, [1, 2, 1, 100, 1])
      yield* setSlot("many-2", "left")
      assert.deepStrictEqual(yield* figures, { counts: [0, 0, 0, 0, 0], lags: [], hasLag: false, hasStored: false })
    }))
})
