import { Effect } from "effect"
import { performance } from "node:perf_hooks"
import { request } from "undici"
import { compare, type Comparison, type Finding, formatFigure, InvalidRun, verify } from "../Measure.ts"
import { Processes, type Serving } from "../Processes.ts"
import { peer } from "./Competitors.ts"

/** What the collector stand-in has counted; see peers/collector. */
interface Received {
  /** Spans of requests. A request may have further spans, which do not count. */
  readonly requestSpans: number
  readonly traceBytes: number
  readonly metricBytes: number
}

const pollMillis = 50
/** Spans are exported every second. */
const timeoutMillis = 10_000

/** The name of a competitor's twin that exports telemetry. */
export const observed = (name: string): string => `${name}, telemetry on`

/** Starts a collector stand-in for one server, which exports traces, metrics and logs to it when it gets `env`. */
export const startCollector = Effect.gen(function*() {
  const processes = yield* Processes
  const { baseUrl } = yield* processes.serve({ entry: peer("collector") })
  let requests = 0

  const received = Effect.tryPromise({
    try: async () => {
      const { body } = await request(`${baseUrl}/received`)
      return await body.json() as Received
    },
    catch: (error) => new InvalidRun({ message: `the collector does not answer: ${error}` })
  })

  /**
   * Returns a check for one load: it waits until every request has its span. So no export runs during the turn of the
   * next competitor.
   */
  const spansOf = (name: string) => {
    const before = requests
    return Effect.fnUntraced(function*(answered: number) {
      requests = before + answered
      const startedAt = performance.now()
      while (true) {
        const { requestSpans } = yield* received
        if (requestSpans >= requests) return
        if (performance.now() - startedAt > timeoutMillis) yield* verify(`${name}: spans`, requestSpans, requests)
        yield* Effect.sleep(pollMillis)
      }
    })
  }

  /** Stops the server, which then exports its last metrics, and fails unless metrics arrived. Returns a remark. */
  const verifyMetrics = Effect.fnUntraced(function*(name: string, serving: Serving) {
    yield* serving.stop
    const { metricBytes, requestSpans, traceBytes } = yield* received
    if (metricBytes === 0) return yield* new InvalidRun({ message: `${name}: no metrics arrived at the collector` })
    return `${name}: for ${formatFigure(requests)} requests the collector received ${formatFigure(requestSpans)} ` +
      `request spans, ${formatFigure(traceBytes / requests)} bytes of traces per request, and ` +
      `${formatFigure(metricBytes)} bytes of metrics.`
  })

  return { env: { OTEL_EXPORTER_OTLP_ENDPOINT: baseUrl }, spansOf, verifyMetrics }
})

/** The request rate with telemetry divided by the rate without, for a competitor that has an {@link observed} twin. */
export const compareTelemetry = (findings: ReadonlyArray<Finding>, name: string): Comparison =>
  compare(findings, { of: observed(name), against: name, metric: "requests/s" }, { bound: "at least", value: 0.85 })
