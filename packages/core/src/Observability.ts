import { Context, Duration, Effect, Formatter, Layer, Logger, Option, References, Semaphore, Tracer } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError } from "effect/http"
import { Otlp, OtlpSerialization } from "effect/observability"
import * as Metrics from "./Metrics.ts"
import { percentDecoded } from "./PercentEncoding.ts"
import * as Settings from "./Settings.ts"

/** Default of `OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds. */
const metricsIntervalMillis = 10_000

/** Time for which a shutdown waits for the last export. */
const shutdownTimeout = Duration.seconds(3)

/** Timeout of one request to the collector, with its response. The exporter repeats it three times. */
const exportTimeout = Duration.seconds(10)

/** Requests to the collector in flight at most. Each has up to 1,000 spans or log entries, or all metrics. */
const maxExports = 16

/**
 * Exports traces, metrics and logs over OTLP (HTTP, JSON) to `OTEL_EXPORTER_OTLP_ENDPOINT`, with the headers of
 * `OTEL_EXPORTER_OTLP_HEADERS`. Without an endpoint nothing is exported and no spans are created.
 */
export const layer = (processName: string): Layer.Layer<never, Settings.StartRefused> =>
  Layer.unwrap(Effect.gen(function*() {
    const { endpoint, headers, metricsMillis } = yield* settings
    if (endpoint === "") return Layer.succeed(References.TracerEnabled, false)
    return Otlp.layer({
      baseUrl: endpoint,
      resource: { serviceName: `card-rewards-${processName}`, serviceVersion: "0.0.0" },
      headers,
      metricsExportInterval: Duration.millis(metricsMillis),
      tracerExportInterval: Duration.seconds(1),
      loggerExportInterval: Duration.seconds(1),
      loggerMergeWithExisting: true,
      shutdownTimeout
    }).pipe(
      Layer.provide([OtlpSerialization.layerJson, boundedClient]),
      Layer.merge(Layer.succeed(Metrics.Enabled, true)),
      Layer.orDie
    )
  }))

/**
 * An HTTP client that keeps few requests, and none for long: a collector may accept requests and never respond, while
 * the exporter makes one after another. One too many is a defect, after which the exporter drops what it has of that
 * kind (traces, metrics or logs) and makes no request for a minute.
 */
const boundedClient = Layer.effect(
  HttpClient.HttpClient,
  Effect.gen(function*() {
    const slots = yield* Semaphore.make(maxExports)
    return HttpClient.transform(yield* HttpClient.HttpClient, (exchange, request) => {
      const reason = new HttpClientError.TransportError({ request, description: "No response in time" })
      return exchange.pipe(
        Effect.tap((response) => Effect.ignore(response.arrayBuffer)),
        Effect.timeoutOrElse({
          duration: exportTimeout,
          orElse: () => Effect.fail(new HttpClientError.HttpClientError({ reason }))
        }),
        slots.withPermitsIfAvailable(1),
        Effect.flatMap(Option.match({
          onNone: () => Effect.die(new Error("Too many exports are in flight")),
          onSome: Effect.succeed
        }))
      )
    })
  })
).pipe(Layer.provide(FetchHttpClient.layer))

/** Reads the telemetry settings from the environment; the endpoint is empty where none is set. */
export const settings = Effect.gen(function*() {
  return {
    endpoint: yield* Settings.setting("OTEL_EXPORTER_OTLP_ENDPOINT", "an http:// or https:// address", "", address),
    metricsMillis: yield* metricsInterval,
    headers: yield* Settings.setting(
      "OTEL_EXPORTER_OTLP_HEADERS",
      "a list such as name=value,other=value",
      {},
      parseHeaders
    )
  }
})

/** Milliseconds between two exports of the metrics. */
export const metricsInterval = Settings.setting(
  "OTEL_METRIC_EXPORT_INTERVAL",
  "milliseconds from 10 to 3600000",
  metricsIntervalMillis,
  Settings.integer(10, 3_600_000)
)

/** Writes one line of JSON for each log entry, with its trace id and span id. */
export const jsonLogger: Logger.Logger<unknown, void> = Logger.withConsoleLog(Logger.make((entry) => {
  const span = Context.getOrUndefined(entry.fiber.context, Tracer.ParentSpan)
  const trace = span === undefined || span.traceId === untraced ? {} : { traceId: span.traceId, spanId: span.spanId }
  return Formatter.formatJson({ ...Logger.formatStructured.log(entry), ...trace })
}))

/** The trace id of spans that Effect does not trace. */
const untraced = "noop"

const address = (text: string) => /^https?:\/\//u.test(text) && URL.canParse(text) ? text : undefined

/** A header `name=value`: a token, and a percent-encoded value. */
const header = /^\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(.*?)\s*$/u

/** Whether all characters may be in the value of a header. */
const isHeaderValue = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/u.test(text)

const parseHeaders = (text: string): Readonly<Record<string, string>> | undefined => {
  const headers: Record<string, string> = {}
  for (const pair of text.split(",")) {
    const [, name, encoded = ""] = header.exec(pair) ?? []
    const value = percentDecoded(encoded)
    if (name === undefined || value === undefined || !isHeaderValue(value)) return undefined
    headers[name] = value
  }
  return headers
}
