import { Processing } from "@card-rewards/core/Processing"
import { Effect, Layer } from "effect"
import * as Loop from "./Loop.ts"

/** Pause after a look that found no stored event: what an event waits for at most while the worker is idle. */
const idleMillis = 40

/** The fiber that turns stored spend events into rewards. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const processing = yield* Processing
  return Loop.layer("SpendProcessor", Effect.map(processing.processEvents, (count) => count > 0), { idleMillis })
}))
