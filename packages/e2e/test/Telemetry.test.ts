import { attribute, Collector, points, prometheusName, prometheusNames, type Span } from "@card-rewards/e2e/Collector"
import type { Spend } from "@card-rewards/e2e/Load"
import { query, service } from "@card-rewards/e2e/Setting"
import { expect, integratorId, iso, listen, provision, seedIntegrator, unitsPerCent } from "@card-rewards/e2e/World"
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
  { excludeTestServices: true }
)("telemetry", (it) => {
  it.effect("links a request to its processing and delivery, measures all of it, and exports no secret", () =>
    Effect.gen(function*() {
      const observed = yield* observedService
      yield* assertIdleHasNoSpans(observed)
      yield* assertTraceIsLinked(observed)
      yield* assertFaultLeadsToItsTrace(observed)
      yield* assertRequestsAreMeasured(observed)
      yield* assertWorkIsMeasured(observed)
      yield* assertLagIsMeasured(observed)
      yield* assertQueriesAreExported(observed)
      yield* assertNoSecretIsExported(observed)
    }).pipe(Effect.scoped))
})

type Observed = Effect.Success<typeof observedService>

/** A service that exports to the collector, with an integrator whose webhooks are received. */
const observedService = Effect.gen(function*() {
  const collector = yield* Collector
  const receiver = yield* WebhookReceiver
  const running = yield* service({
    more: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_METRIC_EXPORT_INTERVAL: "200", LOG_LEVEL: "info" }
  })
  const clockMillis = yield* seedIntegrator(running.client)
  const signingSecret = yield* listen(running.client, receiver.url)
  const metrics = (name: string) => collector.metrics().filter((one) => one.name === name)
  /** The sum of the points of a metric that have these attributes. */
  const value = (name: string, ...wanted: ReadonlyArray<readonly [string, string]>) =>
    Effect.sync(() =>
      metrics(name).flatMap(points)
        .filter((point) => wanted.every(([key, is]) => attribute(point, key) === is))
        .reduce((sum, point) => sum + point.number, 0)
    )
  /** Sends the same clearing with a key. Returns the status of the answer. */
  const submit = (key: string, headers: Record<string, string> = {}) =>
    Effect.promise(() =>
      fetch(`http://127.0.0.1:${running.port}/v1/spend-events`, {
        method: "POST",
        headers: { "x-api-key": key, "content-type": "application/json", ...headers },
        body: JSON.stringify(clearing(clockMillis))
      }).then(({ status }) => status)
    )
  return { ...running, collector, receiver, signingSecret, metrics, value, submit }
})

/** A worker without work scans all the time, and exports no span for it. */
const assertIdleHasNoSpans = Effect.fnUntraced(function*({ collector, value }: Observed) {
  const idle = value("card_rewards.worker.step.duration", ["step", "SpendProcessor"], ["outcome", "idle"])
  const idleScans = (more: number) =>
    Effect.flatMap(idle, (before) => until("idle scans", idle, (count) => count > before + more))
  yield* idleScans(10) // the start is over
  const idleSince = BigInt(Date.now()) * 1_000_000n
  yield* idleScans(10)
  const since = collector.spans.filter(({ service, startTimeUnixNano }) =>
    service === "card-rewards-worker" && BigInt(startTimeUnixNano) > idleSince)
  assert.deepStrictEqual(since.map(({ name, traceId }) => `${name} ${traceId}`), [])
})

/** Waits for a span that the collector receives. */
const spanOf = (collector: Observed["collector"], what: string, isWanted: (span: Span) => boolean) =>
  Effect.map(
    until(what, Effect.sync(() => collector.spans.find(isWanted)), (span) => span !== undefined),
    (span) => span ?? assert.fail()
  )

/** The span of a delivery's attempt links to that of the batch, and this to the request's; each has its own trace. */
const assertTraceIsLinked = Effect.fnUntraced(function*({ apiKey, client, collector, receiver, submit }: Observed) {
  yield* expect(200, client.sendWithRetries("POST", "/v1/sandbox/deposits", {
    reference: "enough",
    amount: { asset: "USDC", amount: `${1_000_000n * unitsPerCent.USDC}` }
  }))
  assert.strictEqual(yield* submit(apiKey, { traceparent: `00-${caller.traceId}-${caller.spanId}-01` }), 202)
  const isCreated = ({ body }: { readonly body: string }) => JSON.parse(body).kind === "reward.pending"
  yield* until("the webhook", Effect.sync(() => receiver.received.length), () => receiver.received.some(isCreated))
  const delivered = receiver.received.find(isCreated)?.headers["x-service-event-id"]
  const linkedFrom = (span: Span | undefined) =>
    Effect.forEach(span?.links ?? [], (link) =>
      spanOf(collector, "the linked span", ({ spanId, traceId }) =>
        spanId === link.spanId && traceId === link.traceId))

  const attempt = yield* spanOf(collector, "the attempt's span", (span) =>
    attribute(span, "card_rewards.event") === delivered)
  assert.deepInclude({ ...attempt }, { name: "WebhookDispatcher.attempt", service: "card-rewards-worker" })
  assert.strictEqual(attribute(attempt, "outcome"), "delivered")
  const [processing, ...noOther] = yield* linkedFrom(attempt)
  assert.deepInclude({ ...processing }, { name: "Processing.processEvents", service: "card-rewards-worker" })
  assert.deepStrictEqual(noOther, [])
  const [submitted] = yield* linkedFrom(processing)
  assert.deepInclude(
    { ...submitted },
    { name: "SpendEvents.submit", service: "card-rewards-api", traceId: caller.traceId }
  )
  assert.strictEqual(new Set([attempt.traceId, processing?.traceId, submitted?.traceId]).size, 3)
  assert.deepStrictEqual([attempt.parentSpanId, processing?.parentSpanId], [undefined, undefined])
  const server = yield* spanOf(collector, "the request's span", (span) =>
    span.traceId === caller.traceId && span.parentSpanId === caller.spanId)
  assert.strictEqual(attribute(server, "http.route"), "/v1/spend-events")
  assert.isTrue(
    collector.spans.some(({ parentSpanId, traceId }) =>
      traceId === processing?.traceId && parentSpanId === processing.spanId)
  )
})

/** The log line and the exported log entry of a fault have the trace id of the request. */
const assertFaultLeadsToItsTrace = Effect.fnUntraced(function*({ api, apiKey, collector, port, url }: Observed) {
  yield* query(url, "ALTER TABLE users RENAME TO hidden")
  const failing = { traceId: "5bf92f3577b34da6a3ce929d0e0e4736", spanId: caller.spanId }
  const status = yield* Effect.promise(() =>
    fetch(`http://127.0.0.1:${port}/v1/users/user:0/balance`, {
      headers: { "x-api-key": apiKey, traceparent: `00-${failing.traceId}-${failing.spanId}-00` }
    }).then(({ status }) => status)
  )
  yield* query(url, "ALTER TABLE hidden RENAME TO users")
  assert.strictEqual(status, 500)
  const line = yield* until(
    "the line",
    Effect.sync(() => api.output().split("\n").find((text) => text.includes("A request met a fault"))),
    (text) => text !== undefined
  )
  assert.strictEqual(JSON.parse(line ?? "").traceId, failing.traceId)
  const entry = yield* until(
    "the log entry",
    Effect.sync(() =>
      collector.logs.find(({ service, severityText }) => service === "card-rewards-api" && severityText === "Error")),
    (log) => log !== undefined
  )
  assert.strictEqual(entry?.traceId, failing.traceId)
})

/** Requests are counted by method, route and status, including those without a trace or a route. */
const assertRequestsAreMeasured = Effect.fnUntraced(function*({ client, metrics, submit, value }: Observed) {
  const requests = "http.server.request.duration"
  assert.strictEqual(yield* submit(wrongKey), 401)
  assert.strictEqual((yield* client.sendWithRetries("GET", "/v1/nothing?secret=of-a-query")).status, 404)
  const isMeasured = (method: string, status: string, route?: string) =>
    until(
      `${method} ${route} ${status}`,
      value(
        requests,
        ["http.request.method", method],
        ["http.response.status_code", status],
        ...(route === undefined ? [] : [["http.route", route] as const])
      ),
      (count) => count > 0
    )
  yield* isMeasured("POST", "202", "/v1/spend-events")
  yield* isMeasured("POST", "401", "/v1/spend-events")
  yield* isMeasured("GET", "500", "/v1/users/:userId/balance")
  yield* isMeasured("GET", "204", "/health")
  yield* isMeasured("GET", "404")
  assert.deepStrictEqual(metrics(requests).map(({ unit }) => unit), ["s"])
})

/** The spend event, its reward and its delivery are each counted once. */
const assertWorkIsMeasured = Effect.fnUntraced(function*({ value }: Observed) {
  const counted = (what: string, ...metric: Parameters<typeof value>) =>
    until(what, value(...metric), (count) => count > 0)
  assert.strictEqual(yield* counted("applied", "card_rewards.spend_events.applied"), 1)
  assert.strictEqual(yield* counted("pending", "card_rewards.events.stored", ["kind", "reward.pending"]), 1)
  yield* counted(
    "worked",
    "card_rewards.worker.step.duration",
    ["step", "SpendProcessor"],
    ["outcome", "worked"]
  )
  yield* counted("attempts", "card_rewards.deliveries.attempt.duration", ["outcome", "delivered"])
  yield* until("held", value("card_rewards.vaults.held", ["asset", "USDC"]), (tokens) => tokens === 10_000)
})

/** An endpoint that is behind has gauges of its own, and one that is not has none. */
const assertLagIsMeasured = Effect.fnUntraced(function*({ metrics, url, value }: Observed) {
  const down = "down-for-two-minutes"
  yield* provision({ DATABASE_URL: url }, down)
  yield* query(url, `INSERT INTO webhook_endpoints (integrator_id, generation, endpoint_id, url, created_at,
      first_revision, revision, start, cursor, work_at, failures, probe_at)
    SELECT '${down}', 1, 'main', 'http://127.0.0.1:9/', now(), 1, 1, 0, 0, at, 10, at
    FROM (SELECT now() + interval '1 hour' AS at) probe`)
  yield* query(url, `INSERT INTO events (integrator_id, event, event_id, kind, created_at, stored_at, body)
    SELECT '${down}', n, 'evt_' || n, 'webhook.ping', now(), now() - interval '2 minutes', '{}'
    FROM generate_series(1, 3) n`)
  yield* query(url, `UPDATE vaults SET events = 3 WHERE integrator_id = '${down}'`)
  const of = ["card_rewards.integrator", down] as const
  yield* until("the lag", value("card_rewards.endpoint.lag", of), (events) => events === 3)
  const age = yield* until("its age", value("card_rewards.endpoint.lag_age", of), (seconds) => seconds >= 120)
  assert.isBelow(age, 180)
  const shown = metrics("card_rewards.endpoint.lag").flatMap(points)
  assert.deepStrictEqual(shown.map((point) => attribute(point, of[0])), [down])
  yield* until("the lag of all", value("card_rewards.deliveries.lag"), (seconds) => seconds >= 120)
})

/** Every metric and every own label that the dashboard and the alerts query is exported. */
const assertQueriesAreExported = Effect.fnUntraced(function*({ collector }: Observed) {
  const exported = Effect.sync(() =>
    new Set(collector.metrics().flatMap((metric) => [
      ...prometheusNames(metric),
      ...points(metric).flatMap(({ attributes }) => attributes.map(({ key }) => prometheusName(key)))
    ])))
  for (const file of ["deploy/grafana/card-rewards.json", "deploy/prometheus/card-rewards.rules.yaml"]) {
    const queried = expressions(parse(readFileSync(join(root, file), "utf8")))
      .flatMap((expression) =>
        expression.match(/\b(?:card_rewards|http_server)_[a-z_]+/g) ?? [assert.fail(expression)])
      // the label of several cells, which Cells.test.ts has
      .filter((name) => name !== "card_rewards_cell")
    assert.isAbove(queried.length, 5, file)
    const missing = Effect.map(exported, (names) => queried.filter((name) => !names.has(name)))
    yield* until(`the metrics of ${file}`, missing, ({ length }) => length === 0)
  }
})

/** Ends both processes, so that everything is exported, and searches the exports for secrets. */
const assertNoSecretIsExported = Effect.fnUntraced(function*(observed: Observed) {
  const { api, apiKey, client, collector, receiver, signingSecret, url, worker } = observed
  // in the wrong places, which are exported of other requests
  assert.strictEqual((yield* client.sendWithRetries("GET", `/v1/programs?api_key=${apiKey}`)).status, 200)
  assert.strictEqual((yield* client.sendWithRetries("DELETE", `/v1/api-keys/${apiKey}`)).status, 404)
  yield* worker().send("SIGTERM")
  yield* worker().exit
  yield* api.send("SIGTERM")
  yield* api.exit
  const received = collector.received()
  assert.include(received, "/v1/spend-events")
  const secrets = [
    apiKey,
    wrongKey,
    signingSecret,
    signingSecret.replace(/^whsec_/, ""),
    secretsKey,
    new URL(url).password,
    receiver.url
  ]
  for (const secret of secrets) {
    assert.isAbove(secret.length, 3)
    assert.isFalse(received.includes(secret), "a secret is exported")
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
