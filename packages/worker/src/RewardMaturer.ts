import { Processing } from "@card-rewards/core/Processing"
import { Effect, Layer } from "effect"
import { storing } from "./Deliverable.ts"
import * as Loop from "./Loop.ts"

/**
 * Pause after a look that found nothing due. Reads and claims do not wait for it: they apply what is due themselves.
 */
const idleMillis = 250

/** The fiber that makes rewards claimable as their holding periods end. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const processing = yield* Processing
  return Loop.layer("RewardMaturer", storing(processing.matureRewards), { idleMillis })
}))
