/**
 * Stands in for an OpenTelemetry collector: it answers every export of OTLP over HTTP with 200 and keeps nothing but
 * counts. `GET /received` returns them; see `Received` in measures/Telemetry.ts.
 */
import { createServer } from "node:http"

const { HOST, PORT } = process.env

const received = { requestSpans: 0, traceBytes: 0, metricBytes: 0 }

/** How the JSON of OTLP marks a span of a server's request. */
const requestSpan = "\"kind\":2"

const countExport = (path: string | undefined, body: Buffer): void => {
  if (path === "/v1/metrics") received.metricBytes += body.length
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
