import * as Metrics from "@card-rewards/core/Metrics"
import * as Observability from "@card-rewards/core/Observability"
import * as Vitals from "@card-rewards/core/Vitals"
import { type Asset, unitsPerCent } from "@card-rewards/domain/Money"
import { Effect, Layer, Metric } from "effect"
import * as Loop from "./Loop.ts"

const storedEvents = Metrics.gauge("card_rewards.spend_events.stored", "{event}", "Stored spend events that are not applied yet")
const oldestStored = Metrics.gauge("card_rewards.spend_events.oldest_stored", "s", "Since the oldest of them was received")
const pendingDeliveries = Metrics.gauge("card_rewards.deliveries.pending", "{delivery}", "Webhook deliveries that are not done")
const deliveryLag = Metrics.gauge("card_rewards.deliveries.lag", "s", "Since the delivery due longest was due")
const xminAge = Metrics.gauge("card_rewards.database.xmin_age", "{transaction}", "Since the oldest snapshot in use")
const held = Metrics.gauge("card_rewards.vaults.held", "{token}", "What the vaults hold")
const free = Metrics.gauge("card_rewards.vaults.free", "{token}", "What of it is free")
const awaitingFunding = Metrics.gauge("card_rewards.rewards.awaiting_funding", "{token}", "Rewards that wait for money")
const owed = Metrics.gauge("card_rewards.users.owed", "{token}", "What users owe")

/** The fiber that tells the service's vitals as gauges, where telemetry goes anywhere. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  if (!(yield* Metrics.On)) return Layer.empty
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
    const tell = (metric: typeof held, amount: bigint) => Metrics.add(metric, tokens(asset, amount), { asset })
    yield* tell(held, amounts.held)
    yield* tell(free, amounts.free)
    yield* tell(awaitingFunding, amounts.awaitingFunding)
    yield* tell(owed, amounts.owed)
  }
  return false
}).pipe(Effect.withTracerEnabled(false))

/** Whole ones: ten EURe in smallest units are already more than the 64 bits that a metric's integer has. */
const tokens = (asset: Asset, amount: bigint): number => Number(amount) / Number(100n * unitsPerCent[asset])
