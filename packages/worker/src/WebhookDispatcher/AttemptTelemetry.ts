import type { Outgoing } from "@card-rewards/core/Deliveries"
import * as Metrics from "@card-rewards/core/Metrics"
import { type AttemptResult, isSuccess } from "@card-rewards/domain/Delivery"
import { Effect } from "effect"

const duration = Metrics.durations(
  "card_rewards.deliveries.attempt.duration",
  "Duration of webhook attempts; error.type is the status, or what went wrong, of those that failed"
)

/** Tells an attempt's outcome to its span and to the metrics; never the endpoint's address, which may hold a secret. */
export const tell = (outgoing: Outgoing, result: AttemptResult, millis: number): Effect.Effect<void> =>
  Effect.withFiber((fiber) => fiber.getRef(Metrics.On) ? tellAll(outgoing, result, millis) : Effect.void)

const tellAll = Effect.fnUntraced(function*({ claim, eventId }: Outgoing, result: AttemptResult, millis: number) {
  const outcome = outcomeOf(result)
  yield* Metrics.add(duration, millis / 1_000, outcome)
  yield* Effect.annotateCurrentSpan({
    "card_rewards.integrator": claim.integratorId,
    "card_rewards.event": eventId,
    "card_rewards.attempt": claim.attempt,
    ...outcome
  })
})

const outcomeOf = (result: AttemptResult): Readonly<Record<string, string>> =>
  isSuccess(result)
    ? { outcome: "delivered" }
    : { outcome: "failed", "error.type": "status" in result ? `${result.status}` : result.error }
