import { Clock, Effect } from "effect"
import { performance } from "node:perf_hooks"
import { request } from "undici"
import { compare, type Comparison, type Finding, formatFigure, InvalidRun, verify } from "../Measure.ts"
import { Processes } from "../Processes.ts"
import { peer } from "./Competitors.ts"

/** What the collector stand-in has counted; see peers/collector. */
interface Received {
  /** Spans of requests: of a few hundred requests in one second. Further spans of a request do not count. */
  readonly requestSpans: number
  /** Requests whose duration was measured. */
  readonly measuredRequests: number
  readonly traceBytes: number
  readonly metricBytes: number
}

const pollMillis = 50
/** Spans are exported every second. */
const timeoutMillis = 10_000

/** How often the server exports its metrics. */
const metricsMillis = 1_000

/** The name of a competitor's twin that exports telemetry. */
export const observed = (name: string): string => `${name}, telemetry on`

/** Starts a collector stand-in for one server, which exports traces, metrics and logs to it when it gets `env`. */
export const startCollector = Effect.gen(function*() {
  const processes = yield* Processes
  const { baseUrl } = yield* processes.serve({ entry: peer("collector") })
  let requests = 0
  let spans = 0

  const received = Effect.tryPromise({
    try: async () => {
      const { body } = await request(`${baseUrl}/received`)
      return await body.json() as Received
    },
    catch: (error) => new InvalidRun({ message: `the collector does not answer: ${error}` })
  })

  /** Returns a check for one load, which waits until spans of it have arrived. */
  const spansOf = (name: string) => {
    const before = requests
    return Effect.fnUntraced(function*(answered: number) {
      requests = before + answered
      const startedAt = performance.now()
      const known = spans
      while (spans === known) {
        if (performance.now() - startedAt > timeoutMillis) {
          return yield* new InvalidRun({ message: `${name}: no spans arrived at the collector` })
        }
        yield* Effect.sleep(pollMillis)
        spans = (yield* received).requestSpans
      }
      // the server traces the first requests of each second: a short load in the same one might have no spans
      yield* Effect.sleep(1_000 - (yield* Clock.currentTimeMillis) % 1_000)
    })
  }

  /** Waits until the metrics have counted all requests. Returns a remark. */
  const verifyMetrics = Effect.fnUntraced(function*(name: string) {
    const startedAt = performance.now()
    while ((yield* received).measuredRequests < requests && performance.now() - startedAt < timeoutMillis) {
      yield* Effect.sleep(pollMillis)
    }
    const { measuredRequests, metricBytes, requestSpans, traceBytes } = yield* received
    if (measuredRequests < requests) yield* verify(`${name}: measured requests`, measuredRequests, requests)
    return `${name}: for ${formatFigure(requests)} requests the collector received ${formatFigure(requestSpans)} ` +
      `request spans, ${formatFigure(traceBytes / requests)} bytes of traces per request, and ` +
      `${formatFigure(metricBytes)} bytes of metrics.`
  })

  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: baseUrl, OTEL_METRIC_EXPORT_INTERVAL: `${metricsMillis}` }
  return { env, spansOf, verifyMetrics }
})

/** The request rate with telemetry divided by the rate without, for a competitor that has an {@link observed} twin. */
export const compareTelemetry = (findings: ReadonlyArray<Finding>, name: string): Comparison =>
  compare(findings, { of: observed(name), against: name, metric: "requests/s" }, { bound: "at least", value: 0.9 })
