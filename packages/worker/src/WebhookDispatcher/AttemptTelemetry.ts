import type { Outgoing } from "@card-rewards/core/Deliveries"
import * as Metrics from "@card-rewards/core/Metrics"
import * as Tracing from "@card-rewards/core/Tracing"
import { type AttemptResult, isSuccess } from "@card-rewards/domain/Delivery"
import { Effect } from "effect"

const duration = Metrics.durations(
  "card_rewards.deliveries.attempt.duration",
  "Duration of webhook attempts; error.type is the status, or what went wrong, of those that failed"
)

/** Told of an attempt that begins, it gives what is to be told of its end. */
export type Observe = (outgoing: Outgoing) => (result: AttemptResult, millis: number) => void

/**
 * Tells attempts to traces and metrics, where telemetry is on; never the endpoint's address, which may hold a secret. Each has
 * a span of its own trace, linked to the one that made the delivery.
 */
export const observe: Effect.Effect<Observe> = Effect.withFiber((fiber) => {
  if (!fiber.getRef(Metrics.Enabled)) return Effect.succeed(() => () => undefined)
  const run = Effect.runSyncWith(fiber.context)
  return Effect.succeed(({ claim, eventId }) => {
    const end = run(Tracing.begin("WebhookDispatcher.attempt", "producer", [claim.traceparent]))
    return (result, millis) => {
      const outcome = outcomeOf(result)
      run(Metrics.add(duration, millis / 1_000, outcome))
      run(end({
        "card_rewards.integrator": claim.integratorId,
        "card_rewards.event": eventId,
        "card_rewards.attempt": claim.attempt,
        ...outcome
      }))
    }
  })
})

const outcomeOf = (result: AttemptResult): Readonly<Record<string, string>> =>
  isSuccess(result)
    ? { outcome: "delivered" }
    : { outcome: "failed", "error.type": "status" in result ? `${result.status}` : result.error }
