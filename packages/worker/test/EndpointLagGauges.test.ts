import * as Vitals from "@card-rewards/core/Vitals"
import { IntegratorId } from "@card-rewards/domain/Ids"
import * as EndpointLagGauges from "@card-rewards/worker/EndpointLagGauges"
import { assert, layer } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { endpoint, events, services } from "./Dispatching.ts"

/** The exported values of a gauge, by integrator. */
const valuesOf = (name: string) =>
  Effect.map(Metric.snapshot, (all) =>
    Object.fromEntries(all.flatMap((one) =>
      one.id === `card_rewards.endpoint.${name}` && one.type === "Gauge"
        ? [[`${one.attributes?.["card_rewards.integrator"]}`, Number(one.state.value)]]
        : []
    )))

layer(services(), { excludeTestServices: true })("the gauges of endpoints that are behind", (it) => {
  it.effect("have a value for each, 0 for some reports once it has caught up, and then none", () =>
    Effect.gen(function*() {
      const setGauges = yield* EndpointLagGauges.make
      const sql = yield* SqlClient.SqlClient
      const report = Effect.flatMap(Vitals.read, ({ endpointLags }) => setGauges(endpointLags))
      for (const name of ["behind", "down", "recent"]) yield* endpoint(name, "http://127.0.0.1:9/")
      yield* events("behind", 3, { storedAt: Date.now() - 90_000 })
      yield* events("down", 1, { storedAt: Date.now() - 3_600_000 })
      yield* events("down", 1)
      yield* events("recent", 5, { storedAt: Date.now() })
      yield* report
      assert.deepStrictEqual(yield* valuesOf("lag"), { behind: 3, down: 2 })
      const { behind = 0, down = 0 } = yield* valuesOf("lag_age")
      assert.isTrue(behind >= 90 && behind < 120, `${behind}`)
      assert.isTrue(down >= 3_600 && down < 3_630, `${down}`)

      yield* sql`UPDATE webhook_endpoints SET cursor = 3 WHERE integrator_id = 'behind'`
      for (let time = 0; time < EndpointLagGauges.reportsOfZero; time++) {
        yield* report
        assert.deepStrictEqual(yield* valuesOf("lag"), { behind: 0, down: 2 })
        assert.strictEqual((yield* valuesOf("lag_age"))["behind"], 0)
      }
      yield* report
      assert.deepStrictEqual(yield* valuesOf("lag"), { down: 2 })
      assert.hasAllKeys(yield* valuesOf("lag_age"), ["down"])
      yield* events("behind", 1, { storedAt: Date.now() - 90_000 })
      yield* report
      assert.deepStrictEqual(yield* valuesOf("lag"), { behind: 1, down: 2 })
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("are those of 100 endpoints; one that others push out of the list has none, not 0", () =>
    Effect.gen(function*() {
      const setGauges = yield* EndpointLagGauges.make
      const lags = (from: number) =>
        Array.from({ length: Vitals.maxLags }, (_, index) =>
          ({ integratorId: IntegratorId.make(`i${from + index}`), events: 1, ageMillis: 61_000 }))
      yield* setGauges(lags(0))
      yield* setGauges(lags(40))
      const values = yield* valuesOf("lag")
      assert.sameMembers(Object.keys(values), lags(40).map(({ integratorId }) => `${integratorId}`))
      assert.isTrue(Object.values(values).every((value) => value === 1))
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))
})
