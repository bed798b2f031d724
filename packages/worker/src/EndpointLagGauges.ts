import * as Metrics from "@card-rewards/core/Metrics"
import { type EndpointLag, maxLags } from "@card-rewards/core/Vitals"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"

const lag = Metrics.gauge(
  "card_rewards.endpoint.lag",
  "{event}",
  "Events that a webhook endpoint has not passed, where the oldest is more than a minute old"
)
const age = Metrics.gauge(
  "card_rewards.endpoint.lag_age",
  "s",
  "Age of the oldest event that a webhook endpoint has not passed, where it is more than a minute"
)

/**
 * The number of reports for which an endpoint that is no longer behind has the value 0: at the default interval a
 * minute, so that the store of the metrics reads it. Then its series ends.
 */
export const reportsOfZero = 6

/**
 * The gauges of the endpoints that are behind, with a series for each. Makes a function that sets them to what
 * `Vitals.read` found; no series keeps its value once its endpoint is not among these.
 */
export const make = Effect.sync(() => {
  /** The integrators with a series; for how many more reports, where the endpoint is not behind any more. */
  const series = new Map<IntegratorId, number>()

  const set = (integratorId: IntegratorId, events: number, ageMillis: number) =>
    Effect.andThen(Metrics.add(lag, events, of(integratorId)), Metrics.add(age, ageMillis / 1_000, of(integratorId)))

  const end = (integratorId: IntegratorId) => {
    series.delete(integratorId)
    return Effect.andThen(Metrics.remove(lag, of(integratorId)), Metrics.remove(age, of(integratorId)))
  }

  return Effect.fnUntraced(function*(lags: ReadonlyArray<EndpointLag>) {
    const behind = new Set(lags.map(({ integratorId }) => integratorId))
    // of a full list it is not known whether an endpoint that left it has caught up
    const isFull = lags.length >= maxLags
    for (const [integratorId, reports] of [...series].filter(([integratorId]) => !behind.has(integratorId))) {
      if (isFull || reports === 0) {
        yield* end(integratorId)
        continue
      }
      series.set(integratorId, reports - 1)
      yield* set(integratorId, 0, 0)
    }
    for (const { ageMillis, events, integratorId } of lags) {
      series.set(integratorId, reportsOfZero)
      yield* set(integratorId, events, ageMillis)
    }
  })
})

const of = (integratorId: IntegratorId) => ({ "card_rewards.integrator": integratorId })
