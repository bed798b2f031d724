import { Latch, Layer } from "effect"
import { Deliverable } from "./Deliverable.ts"
import * as RewardMaturer from "./RewardMaturer.ts"
import * as Services from "./Services.ts"
import * as SpendProcessor from "./SpendProcessor.ts"
import * as VitalsReporter from "./VitalsReporter.ts"
import * as WebhookDispatcher from "./WebhookDispatcher.ts"

/** All the work of a worker, for as long as the layer lives. */
export const layer = (config: Parameters<typeof Services.layer>[0]) =>
  Layer.mergeAll(
    SpendProcessor.layer,
    RewardMaturer.layer,
    WebhookDispatcher.layer,
    VitalsReporter.layer
  ).pipe(Layer.provide([Services.layer(config), Layer.effect(Deliverable, Latch.make())]))
