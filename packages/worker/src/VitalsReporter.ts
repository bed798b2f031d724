import * as Metrics from "@card-rewards/core/Metrics"
import * as Observability from "@card-rewards/core/Observability"
import * as Vitals from "@card-rewards/core/Vitals"
import { type Asset, unitsPerCent } from "@card-rewards/domain/Money"
import { Effect, Layer, Metric, Ref } from "effect"
import * as Loop from "./Loop.ts"

const storedEvents = Metrics.gauge("card_rewards.spend_events.stored", "{event}", "Stored spend events that are not applied yet")
const oldestStored = Metrics.gauge("card_rewards.spend_events.oldest_stored", "s", "Since the oldest of them was received")
const pendingDeliveries = Metrics.gauge("card_rewards.deliveries.pending", "{delivery}", "Webhook deliveries that are not done")
const deliveryLag = Metrics.gauge("card_rewards.deliveries.lag", "s", "Since the delivery due longest was due")
const quarantined = Metrics.gauge("card_rewards.integrators.quarantined", "{integrator}", "Integrators in quarantine")
const xminAge = Metrics.gauge("card_rewards.database.xmin_age", "{transaction}", "Since the oldest snapshot in use")
const held = Metrics.gauge("card_rewards.vaults.held", "{token}", "What the vaults hold")
const free = Metrics.gauge("card_rewards.vaults.free", "{token}", "What of it is free")
const awaitingFunding = Metrics.gauge("card_rewards.rewards.awaiting_funding", "{token}", "Rewards that wait for money")
const owed = Metrics.gauge("card_rewards.users.owed", "{token}", "What users owe")

/** Money is read with every sixth report: it is the only part whose cost grows with integrators that have no work. */
const reportsPerMoney = 6

/** The fiber that reports the service's vitals as gauges, where telemetry goes anywhere. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  if (!(yield* Metrics.On)) return Layer.empty
  const reported = yield* Ref.make(0)
  return Loop.layer("VitalsReporter", report(reported), { idleMillis: yield* Observability.metricsInterval })
}))

const report = Effect.fnUntraced(function*(reported: Ref.Ref<number>) {
  yield* reportWork
  if ((yield* Ref.get(reported)) % reportsPerMoney === 0) yield* reportMoney
  yield* Ref.update(reported, (count) => count + 1)
  return false
}, Effect.withTracerEnabled(false))

const reportWork = Effect.gen(function*() {
  const vitals = yield* Vitals.read
  yield* Metric.update(storedEvents, vitals.storedEvents)
  yield* Metric.update(oldestStored, vitals.oldestStoredMillis / 1_000)
  yield* Metric.update(pendingDeliveries, vitals.pendingDeliveries)
  yield* Metric.update(deliveryLag, vitals.deliveryLagMillis / 1_000)
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

/** Whole ones: ten EURe in smallest units are already more than the 64 bits that a metric's integer has. */
const tokens = (asset: Asset, amount: bigint): number => Number(amount) / Number(100n * unitsPerCent[asset])
