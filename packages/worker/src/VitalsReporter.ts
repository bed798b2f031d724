import * as Observability from "@card-rewards/core/Observability"
import * as Vitals from "@card-rewards/core/Vitals"
import { Effect, Layer, Metric } from "effect"
import * as Loop from "./Loop.ts"

const gauge = (name: string, description: string) => Metric.gauge(`card_rewards.${name}`, { description })
const money = (name: string, description: string) =>
  Metric.gauge(`card_rewards.${name}`, { bigint: true, description: `${description}, in smallest units` })

const storedEvents = gauge("spend_events.stored", "Stored spend events that are not applied yet")
const oldestStored = gauge("spend_events.oldest_stored", "Seconds since the oldest of them was received")
const pendingDeliveries = gauge("deliveries.pending", "Webhook deliveries that are not done")
const deliveryLag = gauge("deliveries.lag", "Seconds since the delivery due longest was due")
const xminAge = gauge("database.xmin_age", "Transactions since the oldest snapshot in use")
const held = money("vaults.held", "What the vaults hold")
const free = money("vaults.free", "What of it is free")
const awaitingFunding = money("rewards.awaiting_funding", "Rewards that wait for money")
const owed = money("users.owed", "What users owe")

/** The fiber that tells the service's vitals as gauges, where telemetry goes anywhere. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  if (!(yield* Observability.isOn)) return Layer.empty
  return Loop.layer("VitalsReporter", report, { idleMillis: yield* Observability.metricsInterval })
}))

const report = Effect.gen(function*() {
  const vitals = yield* Vitals.read
  yield* Metric.update(storedEvents, vitals.storedEvents)
  yield* Metric.update(oldestStored, vitals.oldestStoredMillis / 1_000)
  yield* Metric.update(pendingDeliveries, vitals.pendingDeliveries)
  yield* Metric.update(deliveryLag, vitals.deliveryLagMillis / 1_000)
  yield* Metric.update(xminAge, vitals.xminAge)
  for (const { asset, ...amounts } of vitals.money) {
    const of = Metric.withAttributes({ asset })
    yield* Metric.update(of(held), amounts.held)
    yield* Metric.update(of(free), amounts.free)
    yield* Metric.update(of(awaitingFunding), amounts.awaitingFunding)
    yield* Metric.update(of(owed), amounts.owed)
  }
  return false
})
