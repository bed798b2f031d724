/**
 * Stands in for an OpenTelemetry collector: it answers every export of OTLP over HTTP with 200 and keeps nothing but
 * counts. `GET /received` returns them; see `Received` in measures/Telemetry.ts.
 */
import { createServer } from "node:http"

const { HOST, PORT } = process.env

const received = { requestSpans: 0, traceBytes: 0, metricBytes: 0, measuredRequests: 0 }

/** How the JSON of OTLP marks a span of a server's request. */
const requestSpan = "\"kind\":2"

interface Point {
  readonly count: string | number
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: { readonly stringValue?: string } }>
}

interface Metrics {
  readonly resourceMetrics: ReadonlyArray<{
    readonly scopeMetrics: ReadonlyArray<{
      readonly metrics: ReadonlyArray<{
        readonly name: string
        readonly histogram?: { readonly dataPoints: ReadonlyArray<Point> }
      }>
    }>
  }>
}

/** Requests in the histogram of their durations, which is cumulative; without those of the run's own `/health`. */
const countMeasured = (body: Buffer): number => {
  const { resourceMetrics }: Metrics = JSON.parse(body.toString())
  const histograms = resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics).flatMap(({ metrics }) => metrics)
    .flatMap(({ histogram, name }) => name === "http.server.request.duration" ? histogram?.dataPoints ?? [] : [])
  const isHealth = ({ attributes }: Point) => attributes.some(({ value }) => value.stringValue === "/health")
  return histograms.reduce((sum, point) => isHealth(point) ? sum : sum + Number(point.count), 0)
}

const countExport = (path: string | undefined, body: Buffer): void => {
  if (path === "/v1/metrics") {
    received.metricBytes += body.length
    received.measuredRequests = Math.max(received.measuredRequests, countMeasured(body))
  }
  if (path !== "/v1/traces") return
  received.traceBytes += body.length
  for (let at = body.indexOf(requestSpan); at >= 0; at = body.indexOf(requestSpan, at + 1)) received.requestSpans++
}

const server = createServer((request, response) => {
  if (request.method === "GET") return void response.end(JSON.stringify(received))
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    countExport(request.url, Buffer.concat(chunks))
    response.writeHead(200, { "content-type": "application/json" }).end("{}")
  })
})

process.once("SIGTERM", () => process.exit(0))
server.listen(Number(PORT), HOST)
