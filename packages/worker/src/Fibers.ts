import { Layer } from "effect"
import * as DispatcherWakeUp from "./DispatcherWakeUp.ts"
import * as JournalSealer from "./JournalSealer.ts"
import * as RewardMaturer from "./RewardMaturer.ts"
import * as Services from "./Services.ts"
import * as SpendProcessor from "./SpendProcessor.ts"
import * as VitalsReporter from "./VitalsReporter.ts"
import * as WebhookDispatcher from "./WebhookDispatcher.ts"

/** All fibers of a worker; they run until the layer's scope closes. */
export const layer = (
  config: Parameters<typeof Services.layer>[0] & WebhookDispatcher.Options & JournalSealer.Options
) =>
  Layer.mergeAll(
    SpendProcessor.layer,
    RewardMaturer.layer,
    JournalSealer.layer(config),
    WebhookDispatcher.layer(config),
    VitalsReporter.layer
  ).pipe(Layer.provide([Services.layer(config), DispatcherWakeUp.layer]))
