import { Processing } from "@card-rewards/core/Processing"
import { Effect, Layer } from "effect"
import { wakingDispatcher } from "./DispatcherWakeUp.ts"
import * as Loop from "./Loop.ts"

/** Pause after a step that found nothing due. Reads and claims apply due rewards themselves, so they do not wait. */
const idleMillis = 250

/** The fiber that makes rewards claimable when their holding periods end. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const processing = yield* Processing
  return Loop.layer("RewardMaturer", wakingDispatcher(processing.matureRewards), { idleMillis })
}))
