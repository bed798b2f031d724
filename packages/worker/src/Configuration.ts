import * as Settings from "@card-rewards/core/Settings"
import { defaultRetryDelays, parseRetryDelays } from "@card-rewards/domain/Delivery"
import { Effect } from "effect"

/** How long attempts are kept. Here, because `npm start` loads this module, and nothing else of the worker. */
export const defaultRetentionDays = 90

/** Reads the worker's settings from the environment; see docs/operations.md. */
export const load = Effect.gen(function*() {
  return {
    ...(yield* Settings.shared),
    retryDelays: yield* Settings.setting(
      "WEBHOOK_RETRY_DELAYS",
      "1 to 50 durations of 1ms to 7d such as 300ms,5s,2m,1h",
      defaultRetryDelays,
      parseRetryDelays
    ),
    retentionDays: yield* Settings.setting(
      "ATTEMPTS_RETENTION",
      "a number of days from 1d to 3650d",
      defaultRetentionDays,
      (text) => text.endsWith("d") ? Settings.integer(1, 3_650)(text.slice(0, -1)) : undefined
    )
  }
})
