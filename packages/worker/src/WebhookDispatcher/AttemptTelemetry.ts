import * as Metrics from "@card-rewards/core/Metrics"
import * as Tracing from "@card-rewards/core/Tracing"
import { type AttemptResult, isSuccess } from "@card-rewards/domain/Delivery"
import { Effect } from "effect"
import { STATUS_CODES } from "node:http"
import type { Sending } from "./Consumer.ts"

const duration = Metrics.durations(
  "card_rewards.deliveries.attempt.duration",
  "Duration of webhook attempts; error.type is the status, or what went wrong, of those that failed"
)

/** Called at the start of an attempt; returns what is to be called at its end. */
export type Observe = (sending: Sending) => (result: AttemptResult, millis: number) => void

/**
 * Adds attempts to traces and metrics, where telemetry is on; never the endpoint's address, which may hold a secret.
 * Each has a span of a trace of its own, linked to the one that stored the event.
 */
export const observe: Effect.Effect<Observe> = Effect.withFiber((fiber) => {
  if (!fiber.getRef(Metrics.Enabled)) return Effect.succeed(() => () => undefined)
  const run = Effect.runSyncWith(fiber.context)
  return Effect.succeed(({ consumer, item }) => {
    const end = run(Tracing.begin("WebhookDispatcher.attempt", "producer", [item.traceparent]))
    return (result, millis) => {
      const outcome = outcomeOf(result)
      run(Metrics.add(duration, millis / 1_000, outcome))
      run(end({
        "card_rewards.integrator": consumer.lease.integratorId,
        "card_rewards.event": item.eventId,
        "card_rewards.attempt": item.attempts + 1,
        ...outcome
      }))
    }
  })
})

const outcomeOf = (result: AttemptResult): Readonly<Record<string, string>> =>
  isSuccess(result)
    ? { outcome: "delivered" }
    : { outcome: "failed", "error.type": "status" in result ? statusType(result.status) : result.error }

/** A receiver chooses the status: each that HTTP does not know would be a series of its own. */
const statusType = (status: number): string =>
  status in STATUS_CODES ? `${status}` : `${Math.trunc(status / 100)}xx`
