import { attribute, Collector, points, prometheusNames, type Span } from "@card-rewards/e2e/Collector"
import type { Spend } from "@card-rewards/e2e/Load"
import { query, service } from "@card-rewards/e2e/Setting"
import { expect, seedIntegrator, integratorId, iso, listen, unitsPerCent } from "@card-rewards/e2e/World"
import { until } from "@card-rewards/testing/Polling"
import { root } from "@card-rewards/testing/Processes"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "yaml"

const caller = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7" }
const secretsKey = Buffer.alloc(32, 7).toString("base64")
const wrongKey = `service_sk_test_${"w".repeat(40)}`

layer(
  Layer.merge(WebhookReceiver.layer, Collector.layer),
  { excludeTestServices: true, timeout: "60 seconds" }
)("telemetry", (it) => {
  it.effect("links a request to its processing and delivery, measures all of it, and exports no secret", () =>
    Effect.gen(function*() {
      const collector = yield* Collector
      const receiver = yield* WebhookReceiver
      const running = yield* service({
        more: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_METRIC_EXPORT_INTERVAL: "200", LOG_LEVEL: "info" }
      })
      const { api, apiKey, client, url, worker } = running
      const at = yield* seedIntegrator(client)
      const secret = yield* listen(client, receiver.url)

      yield* checkIdleWorker
      yield* checkLinks(running, at)
      yield* checkFault(running)
      yield* checkRequestMetrics(running, at)
      yield* checkEventMetrics
      yield* checkDashboards

      yield* worker().send("SIGTERM")
      yield* worker().exit
      yield* api.send("SIGTERM")
      yield* api.exit
      const received = collector.received()
      assert.include(received, "/v1/spend-events")
      const { password } = new URL(url)
      const secrets = [apiKey, wrongKey, secret, secret.replace(/^whsec_/, ""), secretsKey, password, receiver.url]
      for (const one of secrets) {
        assert.isAbove(one.length, 3)
        assert.isFalse(received.includes(one), "a secret is exported")
      }
    }).pipe(Effect.scoped), { timeout: 180_000 })
})

type RunningService = Effect.Success<ReturnType<typeof service>>

/** The sum of the points of a metric that have these attributes. */
const value = (name: string, ...wanted: ReadonlyArray<readonly [string, string]>) =>
  Effect.map(Collector, (collector) =>
    collector.metrics().filter((one) => one.name === name).flatMap(points)
      .filter((point) => wanted.every(([key, is]) => attribute(point, key) === is))
      .reduce((sum, point) => sum + point.number, 0))

const post = (port: number, key: string, at: number, headers: Record<string, string> = {}) =>
  Effect.promise(() =>
    fetch(`http://127.0.0.1:${port}/v1/spend-events`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json", ...headers },
      body: JSON.stringify(clearing(at))
    }).then(({ status }) => status)
  )

const findSpan = (name: string, matches: (span: Span) => boolean) =>
  Effect.flatMap(Collector, (collector) =>
    until(name, Effect.sync(() => collector.spans.find(matches)), (span) => span !== undefined))

/** A worker without work scans all the time, and exports no span for it. */
const checkIdleWorker = Effect.gen(function*() {
  const collector = yield* Collector
  const idle = value("card_rewards.worker.step.duration", ["step", "SpendProcessor"], ["outcome", "idle"])
  const idleScans = (more: number) =>
    Effect.flatMap(idle, (before) => until("idle scans", idle, (count) => count > before + more))
  // the first ones may follow work of the start
  yield* idleScans(10)
  const idleSince = BigInt(Date.now()) * 1_000_000n
  yield* idleScans(10)
  const since = collector.spans.filter(({ service, startTimeUnixNano }) =>
    service === "card-rewards-worker" && BigInt(startTimeUnixNano) > idleSince)
  assert.deepStrictEqual(since.map(({ name, traceId }) => `${name} ${traceId}`), [])
})

/** A delivery's span links to that of the batch which made its event, which links to that of the caller's request. */
const checkLinks = Effect.fnUntraced(function*({ apiKey, client, port }: RunningService, at: number) {
  const collector = yield* Collector
  const receiver = yield* WebhookReceiver
  yield* expect(200, client.sendWithRetries("POST", "/v1/sandbox/deposits", {
    reference: "enough",
    amount: { asset: "USDC", amount: `${1_000_000n * unitsPerCent.USDC}` }
  }))
  assert.strictEqual(yield* post(port, apiKey, at, { traceparent: `00-${caller.traceId}-${caller.spanId}-01` }), 202)
  const isCreated = ({ body }: { readonly body: string }) => JSON.parse(body).kind === "reward.pending"
  yield* until("the webhook", Effect.sync(() => receiver.received.length), () => receiver.received.some(isCreated))
  const delivered = receiver.received.find(isCreated)?.headers["x-service-event-id"]
  const attempt = yield* findSpan("the attempt's span", (span) => attribute(span, "card_rewards.event") === delivered)
  assert.deepInclude({ ...attempt }, { name: "WebhookDispatcher.attempt", service: "card-rewards-worker" })
  assert.strictEqual(attribute(attempt ?? assert.fail(), "outcome"), "delivered")
  const [processing, ...noOther] = yield* linkedFrom(attempt)
  assert.deepInclude({ ...processing }, { name: "Processing.processEvents", service: "card-rewards-worker" })
  assert.deepStrictEqual(noOther, [])
  const [submit] = yield* linkedFrom(processing)
  const request = { name: "SpendEvents.submit", service: "card-rewards-api", traceId: caller.traceId }
  assert.deepInclude({ ...submit }, request)
  assert.strictEqual(new Set([attempt?.traceId, processing?.traceId, submit?.traceId]).size, 3)
  assert.deepStrictEqual([attempt?.parentSpanId, processing?.parentSpanId], [undefined, undefined])
  const server = yield* findSpan("the request's span", (span) =>
    span.traceId === caller.traceId && span.parentSpanId === caller.spanId)
  assert.strictEqual(attribute(server ?? assert.fail(), "http.route"), "/v1/spend-events")
  assert.isTrue(
    collector.spans.some(({ parentSpanId, traceId }) =>
      traceId === processing?.traceId && parentSpanId === processing.spanId)
  )
})

const linkedFrom = (span: Span | undefined) =>
  Effect.forEach(span?.links ?? [], (link) =>
    findSpan("the linked span", ({ spanId, traceId }) => spanId === link.spanId && traceId === link.traceId))

/** The log entry of a fault of the service has the trace id of its request. */
const checkFault = Effect.fnUntraced(function*({ api, apiKey, port, url }: RunningService) {
  const collector = yield* Collector
  yield* query(url, "ALTER TABLE users RENAME TO hidden")
  const failing = { traceId: "5bf92f3577b34da6a3ce929d0e0e4736", spanId: caller.spanId }
  const got = yield* Effect.promise(() =>
    fetch(`http://127.0.0.1:${port}/v1/users/user:0/balance`, {
      headers: { "x-api-key": apiKey, traceparent: `00-${failing.traceId}-${failing.spanId}-00` }
    }).then(({ status }) => status)
  )
  yield* query(url, "ALTER TABLE hidden RENAME TO users")
  assert.strictEqual(got, 500)
  const line = yield* until(
    "the line",
    Effect.sync(() => api.output().split("\n").find((text) => text.includes("A request met a fault"))),
    (text) => text !== undefined
  )
  assert.strictEqual(JSON.parse(line ?? "").traceId, failing.traceId)
  const isError = ({ service, severityText }: (typeof collector.logs)[number]) =>
    service === "card-rewards-api" && severityText === "Error"
  const entry = yield* until(
    "the log entry",
    Effect.sync(() => collector.logs.find(isError)),
    (log) => log !== undefined
  )
  assert.strictEqual(entry?.traceId, failing.traceId)
})

/** Requests are counted by method, route and status, those without a trace or a route too. */
const checkRequestMetrics = Effect.fnUntraced(function*({ client, port }: RunningService, at: number) {
  const collector = yield* Collector
  const requests = "http.server.request.duration"
  assert.strictEqual(yield* post(port, wrongKey, at), 401)
  assert.strictEqual((yield* client.sendWithRetries("GET", "/v1/nothing?secret=of-a-query")).status, 404)
  const isMeasured = (method: string, status: string, route?: string) => {
    const ofRoute = route === undefined ? [] : [["http.route", route] as const]
    const count = value(requests, ["http.request.method", method], ["http.response.status_code", status], ...ofRoute)
    return until(`${method} ${route} ${status}`, count, (count) => count > 0)
  }
  yield* isMeasured("POST", "202", "/v1/spend-events")
  yield* isMeasured("POST", "401", "/v1/spend-events")
  yield* isMeasured("GET", "500", "/v1/users/:userId/balance")
  yield* isMeasured("GET", "204", "/health")
  yield* isMeasured("GET", "404")
  const units = collector.metrics().filter(({ name }) => name === requests).map(({ unit }) => unit)
  assert.deepStrictEqual(units, ["s"])
})

/** The spend event, its reward and its delivery are each counted once. */
const checkEventMetrics = Effect.gen(function*() {
  assert.strictEqual(yield* until("applied", value("card_rewards.spend_events.applied"), (count) => count > 0), 1)
  const pending = value("card_rewards.events.stored", ["kind", "reward.pending"])
  assert.strictEqual(yield* until("pending", pending, (count) => count > 0), 1)
  const worked = value("card_rewards.worker.step.duration", ["step", "SpendProcessor"], ["outcome", "worked"])
  yield* until("worked", worked, (count) => count > 0)
  const attempts = value("card_rewards.deliveries.attempt.duration", ["outcome", "delivered"])
  yield* until("attempts", attempts, (count) => count > 0)
  yield* until("held", value("card_rewards.vaults.held", ["asset", "USDC"]), (tokens) => tokens === 10_000)
})

/** Every metric that the dashboard and the alerts query is exported. */
const checkDashboards = Effect.gen(function*() {
  const collector = yield* Collector
  const exported = Effect.sync(() => new Set(collector.metrics().flatMap(prometheusNames)))
  for (const file of ["deploy/grafana/card-rewards.json", "deploy/prometheus/card-rewards.rules.yaml"]) {
    const queried = expressions(parse(readFileSync(join(root, file), "utf8")))
      .flatMap((expression) =>
        expression.match(/\b(?:card_rewards|http_server)_[a-z_]+/g) ?? [assert.fail(expression)])
    assert.isAbove(queried.length, 5, file)
    const missing = Effect.map(exported, (names) => queried.filter((name) => !names.has(name)))
    yield* until(`the metrics of ${file}`, missing, ({ length }) => length === 0)
  }
})

/** Every `expr` of a dashboard or of alert rules. */
const expressions = (value: unknown): ReadonlyArray<string> =>
  typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([key, of]) => key === "expr" && typeof of === "string" ? [of] : expressions(of))

const clearing = (at: number): Spend => ({
  kind: "clearing",
  integratorId,
  userId: "user:1",
  externalTransactionId: "traced",
  amount: { currency: "USD", amount: "12345" },
  merchant: { descriptor: "Shop", mcc: "5999" },
  occurredAt: iso(at - 1_000)
})
