import { Processing } from "@card-rewards/core/Processing"
import { Effect, Layer } from "effect"
import * as Loop from "./Loop.ts"

/** Pause after a step that found nothing due. Reads and claims apply due rewards themselves, so they do not wait. */
const idleMillis = 250

/**
 * The part of a step's time for which the next one waits. A session that waits for the vault's lock is woken when the
 * step ends; without the pause the next step, which finds the row unlocked, would mostly lock it before.
 */
const restShare = 1 / 20

/** The fiber that makes rewards claimable when their holding periods end. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const processing = yield* Processing
  const rest = (tookMillis: number) => restShare * tookMillis
  return Loop.layer("RewardMaturer", Loop.working(processing.matureRewards), { idleMillis, rest })
}))
