import { Clock, Context, Effect, Metric } from "effect"
import { SqlClient } from "effect/sql"

/**
 * Whether metrics, traces and logs are exported: true in a process that has `OTEL_EXPORTER_OTLP_ENDPOINT`, set by
 * `Observability.layer`; false otherwise. Without it no metric is updated and no span is made.
 */
export const Enabled = Context.Reference<boolean>("@card-rewards/core/Metrics/Enabled", { defaultValue: () => false })

type Attributes = Readonly<Record<string, string>>

/** A UCUM unit: seconds, or an annotation such as `{event}` for a count. */
export type Unit = "s" | `{${string}}`

/** A monotonic counter. */
export const counter = (name: string, unit: Unit, description: string) =>
  Metric.counter(name, { description, incremental: true, attributes: { unit } })

/** A gauge: the current value of something. */
export const gauge = (name: string, unit: Unit, description: string) =>
  Metric.gauge(name, { description, attributes: { unit } })

/**
 * A histogram of durations in seconds, with the bucket boundaries of OpenTelemetry's conventions. A metric with its own
 * attributes is updated without computing a key for each update.
 */
export const durations = (name: string, description: string, attributes: Attributes = {}) =>
  Metric.histogram(name, {
    description,
    attributes: { unit: "s", ...attributes },
    boundaries: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
  })

/** Updates a metric under these attributes. */
export const add = (
  metric: Metric.Metric<number, unknown>,
  amount: number,
  attributes: Attributes
): Effect.Effect<void> => Metric.update(Metric.withAttributes(metric, attributes), amount)

/** Ends the series of a metric under these attributes: it is exported no more, until the next update. */
export const remove = (metric: Metric.Metric<number, unknown>, attributes: Attributes): Effect.Effect<void> =>
  Metric.remove(Metric.withAttributes(metric, attributes))

/** Adds to a counter the number of items of each kind. */
export const addByKind = (
  metric: Metric.Metric<number, unknown>,
  all: ReadonlyArray<{ readonly kind: string }>
): Effect.Effect<void> =>
  Effect.forEach(countByKind(all), ([kind, count]) => add(metric, count, { kind }), { discard: true })

const countByKind = (all: ReadonlyArray<{ readonly kind: string }>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const { kind } of all) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

/** Seconds since a reading of {@link Clock.monotonicTimeNanos}. */
export const secondsSince = (startedNanos: bigint): Effect.Effect<number> =>
  Effect.map(Clock.monotonicTimeNanos, (now) => Number(now - startedNanos) / 1e9)

/** Runs `count` after the enclosing transaction has committed. A transaction that is rolled back counts nothing. */
export const afterCommit = (count: () => Effect.Effect<void>): Effect.Effect<void, never, SqlClient.SqlClient> =>
  Effect.flatMap(Enabled, (isEnabled) =>
    isEnabled ? Effect.flatMap(SqlClient.SqlClient, (sql) => sql.afterCommit(count())) : Effect.void)
