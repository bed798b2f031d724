import * as LoopbackServer from "@card-rewards/testing/LoopbackServer"
import { read } from "@card-rewards/testing/WebhookReceiver"
import { Context, Effect, Layer } from "effect"
import { createServer } from "node:http"

/** An attribute, log body or resource value as OTLP/JSON writes it. */
interface Value {
  readonly stringValue?: string
  readonly intValue?: string | number
  readonly doubleValue?: number
  readonly boolValue?: boolean
}

interface Attribute {
  readonly key: string
  readonly value: Value
}

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: ReadonlyArray<Attribute>
  readonly links: ReadonlyArray<{ readonly traceId: string; readonly spanId: string }>
}

export interface Log {
  readonly severityText: string
  readonly body: Value
  readonly traceId?: string
}

interface Points {
  readonly dataPoints: ReadonlyArray<{
    readonly attributes: ReadonlyArray<Attribute>
    readonly asInt?: string | number
    readonly asDouble?: number
    readonly count?: string | number
    readonly sum?: number
  }>
}

export interface Metric {
  readonly name: string
  readonly unit: string
  readonly description: string
  readonly sum?: Points & { readonly isMonotonic: boolean }
  readonly gauge?: Points
  readonly histogram?: Points
}

interface Resource {
  readonly resource: { readonly attributes: ReadonlyArray<Attribute> }
}

interface Payload {
  readonly resourceSpans?: ReadonlyArray<Resource & {
    readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<Span> }>
  }>
  readonly resourceMetrics?: ReadonlyArray<
    Resource & { readonly scopeMetrics: ReadonlyArray<{ readonly metrics: ReadonlyArray<Metric> }> }
  >
  readonly resourceLogs?: ReadonlyArray<
    Resource & { readonly scopeLogs: ReadonlyArray<{ readonly logRecords: ReadonlyArray<Log> }> }
  >
}

type Of<A> = A & { readonly service: string }

/** A receiver of OTLP over HTTP with JSON: keeps what processes export, with the name of their service. */
export class Collector extends Context.Service<Collector, {
  readonly url: string
  readonly spans: ReadonlyArray<Of<Span>>
  readonly logs: ReadonlyArray<Of<Log>>
  /** The last report of each service. */
  readonly metrics: () => ReadonlyArray<Of<Metric>>
  /** All received bytes as text, including headers. */
  readonly received: () => string
}>()("@card-rewards/e2e/Collector") {
  static readonly layer = Layer.effect(Collector, Effect.suspend(() => listening(0)))
}

/** A {@link Collector} on a port of 127.0.0.1 until the scope closes; 0 selects a free port. */
export const listening = Effect.fnUntraced(function*(at: number) {
  const texts: Array<string> = []
  const spans: Array<Of<Span>> = []
  const logs: Array<Of<Log>> = []
  const metrics = new Map<string, Of<Metric>>()
  const take = (payload: Payload) => {
    for (const { resource, scopeSpans } of payload.resourceSpans ?? []) {
      const service = `${attribute(resource, "service.name")}`
      spans.push(...scopeSpans.flatMap((scope) => scope.spans).map((span) => ({ ...span, service })))
    }
    for (const { resource, scopeLogs } of payload.resourceLogs ?? []) {
      const service = `${attribute(resource, "service.name")}`
      logs.push(...scopeLogs.flatMap((scope) => scope.logRecords).map((log) => ({ ...log, service })))
    }
    for (const { resource, scopeMetrics } of payload.resourceMetrics ?? []) {
      const service = `${attribute(resource, "service.name")}`
      for (const metric of scopeMetrics.flatMap((scope) => scope.metrics)) {
        metrics.set(`${service} ${metric.name}`, { ...metric, service })
      }
    }
  }
  const server = createServer((request, response) =>
    void read(request).then(({ body, headers }) => {
      texts.push(JSON.stringify(headers), body)
      take(JSON.parse(body))
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    }, () => response.destroy())
  )
  const { port } = yield* LoopbackServer.listen(server, { port: at })
  return Collector.of({
    url: `http://127.0.0.1:${port}`,
    spans,
    logs,
    metrics: () => [...metrics.values()],
    received: () => texts.join("\n")
  })
})

/** The value of an attribute, of any type. */
export const attribute = (of: { readonly attributes: ReadonlyArray<Attribute> }, key: string) => {
  const value = of.attributes.find((one) => one.key === key)?.value
  return value?.stringValue ?? value?.intValue ?? value?.doubleValue ?? value?.boolValue
}

/** The points of a metric as numbers; of a histogram the number of its values. */
export const points = (metric: Metric) =>
  (metric.sum ?? metric.gauge ?? metric.histogram)?.dataPoints.map((point) => ({
    ...point,
    number: Number(point.count ?? point.asInt ?? point.asDouble)
  })) ?? []

const suffixes: Readonly<Record<string, string>> = { s: "_seconds", "1": "_ratio" }

/** The name that Prometheus gives an attribute. */
export const prometheusName = (name: string): string => name.replaceAll(/[^A-Za-z0-9_:]/g, "_")

/** The names that Prometheus gives a metric (OpenTelemetry, "Prometheus and OpenMetrics compatibility"). */
export const prometheusNames = (metric: Metric): ReadonlyArray<string> => {
  const dimension = metric.unit.startsWith("{") ? "" : suffixes[metric.unit] ?? `_${metric.unit}`
  const name = `${prometheusName(metric.name)}${dimension}`
  if (metric.histogram !== undefined) return [`${name}_bucket`, `${name}_sum`, `${name}_count`]
  return [metric.sum?.isMonotonic === true ? `${name}_total` : name]
}
