import * as Settings from "@card-rewards/core/Settings"
import { defaultRetryDelays, parseRetryDelays } from "@card-rewards/domain/Delivery"
import { Effect } from "effect"

/** Reads the worker's settings from the environment; see docs/operations.md. */
export const load = Effect.gen(function*() {
  return {
    ...(yield* Settings.shared),
    retryDelays: yield* Settings.setting(
      "WEBHOOK_RETRY_DELAYS",
      "1 to 50 durations of 1ms to 7d such as 300ms,5s,2m,1h",
      defaultRetryDelays,
      parseRetryDelays
    )
  }
})
