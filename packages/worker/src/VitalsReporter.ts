import * as Metrics from "@card-rewards/core/Metrics"
import * as Observability from "@card-rewards/core/Observability"
import * as Vitals from "@card-rewards/core/Vitals"
import { type Asset, decimalsOf } from "@card-rewards/domain/Money"
import { Effect, Layer, Metric } from "effect"
import * as EndpointLagGauges from "./EndpointLagGauges.ts"
import * as Loop from "./Loop.ts"

const gauge = (name: string, unit: Metrics.Unit, description: string) =>
  Metrics.gauge(`card_rewards.${name}`, unit, description)

const storedEvents = gauge("spend_events.stored", "{event}", "Stored spend events that are not applied yet")
const oldestStored = gauge("spend_events.oldest_stored", "s", "Age of the oldest stored spend event")
const pendingDeliveries = gauge("deliveries.pending", "{delivery}", "Pending webhook deliveries")
const deliveryLag = gauge("deliveries.lag", "s", "Age of the oldest event that waits for an endpoint, or open retry")
const quarantined = gauge("integrators.quarantined", "{integrator}", "Integrators in quarantine")
const xminAge = gauge("database.xmin_age", "{transaction}", "Transactions since the oldest snapshot in use")
const held = gauge("vaults.held", "{token}", "Money that the vaults hold")
const free = gauge("vaults.free", "{token}", "Free money of the vaults")
const awaitingFunding = gauge("rewards.awaiting_funding", "{token}", "Rewards that wait for money")
const owed = gauge("users.owed", "{token}", "Money that users owe")

/** Money is read once per six reports: it is the only part whose cost grows with integrators that have no work. */
const reportsPerMoney = 6

/** The fiber that reports the service's vitals as gauges, where telemetry is exported. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  if (!(yield* Metrics.Enabled)) return Layer.empty
  const setEndpointLags = yield* EndpointLagGauges.make
  const idleMillis = yield* Observability.metricsInterval
  let reported = 0
  const report = Effect.gen(function*() {
    yield* reportWork(setEndpointLags)
    if (reported % reportsPerMoney === 0) yield* reportMoney
    reported++
    return false
  })
  return Loop.layer("VitalsReporter", Effect.withTracerEnabled(report, false), { idleMillis })
}))

const reportWork = Effect.fnUntraced(function*(setEndpointLags: Effect.Success<typeof EndpointLagGauges.make>) {
  const vitals = yield* Vitals.read
  yield* Metric.update(storedEvents, vitals.storedEvents)
  yield* Metric.update(oldestStored, vitals.oldestStoredMillis / 1_000)
  yield* Metric.update(pendingDeliveries, vitals.pendingDeliveries)
  yield* Metric.update(deliveryLag, vitals.deliveryLagMillis / 1_000)
  yield* setEndpointLags(vitals.endpointLags)
  for (const [reason, count] of Object.entries(vitals.quarantined)) yield* Metrics.add(quarantined, count, { reason })
  yield* Metric.update(xminAge, vitals.xminAge)
})

const reportMoney = Effect.gen(function*() {
  for (const { asset, ...amounts } of yield* Vitals.readMoney) {
    const set = (metric: typeof held, amount: bigint) => Metrics.add(metric, tokens(asset, amount), { asset })
    yield* set(held, amounts.held)
    yield* set(free, amounts.free)
    yield* set(awaitingFunding, amounts.awaitingFunding)
    yield* set(owed, amounts.owed)
  }
})

/** Whole tokens: 10 EURe in smallest units already exceed the 64-bit integers of metrics. */
const tokens = (asset: Asset, amount: bigint): number => Number(amount) / 10 ** decimalsOf[asset]
