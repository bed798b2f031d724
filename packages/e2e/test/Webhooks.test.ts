import { exchange } from "@card-rewards/testing/HttpExchange"
import { KeptConnections } from "@card-rewards/testing/KeptConnections"
import { LaunchedService } from "@card-rewards/testing/LaunchedService"
import { until } from "@card-rewards/testing/Polling"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"

const Page = Schema.Struct({
  deliveries: Schema.Array(Schema.Struct({
    eventId: Schema.String,
    kind: Schema.String,
    state: Schema.String,
    createdAt: Schema.String,
    nextAttemptAt: Schema.optionalKey(Schema.String),
    attempts: Schema.Array(Schema.Struct({
      at: Schema.String,
      durationMillis: Schema.Int,
      status: Schema.optionalKey(Schema.Int),
      error: Schema.optionalKey(Schema.String)
    }))
  })),
  next: Schema.optionalKey(Schema.String)
})

const agent = new KeptConnections()

/** One request, one answer. */
const call = Effect.fnUntraced(function*(method: string, path: string, json?: unknown) {
  const { apiKey, baseUrl } = yield* LaunchedService
  const sent = { key: Redacted.value(apiKey), json }
  return yield* Effect.orDie(exchange({ agent, baseUrl }, method, path, sent))
})

const deliveries = (query = "") =>
  Effect.map(call("GET", `/v1/webhook-endpoints/main/deliveries${query}`), ({ body }) =>
    Schema.decodeUnknownSync(Page)(body))

const services = Layer.merge(LaunchedService.layer, WebhookReceiver.layer)

layer(services, { excludeTestServices: true })("an integrator and its webhooks", (it) => {
  it.effect("reads every attempt; redelivers an exhausted event, and one that was stored without an endpoint", () =>
    Effect.gen(function*() {
      const receiver = yield* WebhookReceiver
      const deposit = { reference: "early", amount: { asset: "USDC", amount: "5" } }
      assert.strictEqual((yield* call("POST", "/v1/sandbox/deposits", deposit)).status, 200)
      yield* call("POST", "/v1/webhook-endpoints", { id: "main", url: receiver.url })
      assert.deepStrictEqual(yield* deliveries(), { deliveries: [] })

      receiver.answer(500)
      const ping = yield* call("POST", "/v1/webhook-endpoints/main/ping")
      assert.strictEqual(ping.status, 202)
      const eventId = String(ping.body["eventId"])
      const { deliveries: [exhausted] } = yield* until(
        "exhausted",
        deliveries("?state=exhausted"),
        (page) => page.deliveries.length === 1
      )
      assert.deepStrictEqual([exhausted?.eventId, exhausted?.kind], [eventId, "webhook.ping"])
      assert.deepStrictEqual(exhausted?.attempts.map(({ status }) => status), [500, 500, 500, 500])
      assert.isUndefined(exhausted?.nextAttemptAt)
      const times = exhausted?.attempts.map(({ at }) => at) ?? []
      assert.deepStrictEqual(times, times.toSorted())

      receiver.answer(200)
      const anew = yield* call("POST", `/v1/webhook-endpoints/main/deliveries/${eventId}/redeliver`)
      assert.strictEqual(anew.status, 202)
      assert.containsSubset(anew.body, { delivery: { eventId, state: "pending", attempts: [] } })
      const all = yield* until(
        "none pending",
        deliveries(),
        (page) => page.deliveries.every(({ state }) => state !== "pending")
      )
      assert.deepStrictEqual(all.deliveries.map(({ eventId, state }) => [eventId, state]), [
        [eventId, "delivered"],
        [eventId, "exhausted"]
      ])
      assert.deepStrictEqual(all.deliveries[0]?.attempts.map(({ status }) => status), [200])
      assert.strictEqual(receiver.received.length, 5)
      assert.strictEqual(new Set(receiver.received.map(({ body }) => body)).size, 1)
      const numbers = receiver.received.map(({ headers }) => headers["x-service-attempt"])
      assert.deepStrictEqual(numbers, ["1", "2", "3", "4", "1"])

      const log = yield* call("GET", "/v1/events")
      const events = Schema.decodeUnknownSync(Schema.Array(Schema.Struct({
        id: Schema.String,
        kind: Schema.String,
        data: Schema.Unknown
      })))(log.body["events"])
      assert.deepStrictEqual(events.map(({ kind }) => kind), ["vault.deposit_confirmed", "webhook.ping"])
      assert.deepStrictEqual(events[1]?.data, {})
      const early = events[0]?.id ?? ""
      yield* call("POST", `/v1/webhook-endpoints/main/deliveries/${early}/redeliver`)
      yield* until("received", Effect.sync(() => receiver.received.length), (count) => count === 6)
      assert.strictEqual(receiver.received[5]?.headers["x-service-event-id"], early)
      assert.include(receiver.received[5]?.body ?? "", "\"reference\":\"early\"")

      const page = yield* deliveries("?limit=1")
      assert.isDefined(page.next)
      const rest = yield* deliveries(`?limit=10&cursor=${page.next}`)
      const listed = [page, rest].flatMap((one) => one.deliveries.map(({ eventId }) => eventId))
      assert.deepStrictEqual(listed, [early, eventId, eventId])
      assert.isUndefined(rest.next)
    }))

  it.effect("gets 404 for an unknown delivery, and 400 for an invalid query", () =>
    Effect.gen(function*() {
      const unknown = yield* call("POST", "/v1/webhook-endpoints/main/deliveries/evt_0/redeliver")
      assert.deepStrictEqual([unknown.status, unknown.body["resource"], unknown.body["id"]], [404, "event", "evt_0"])
      for (const query of ["?state=lost", "?cursor=x", "?limit=0", "?cursor=d1-1-1-1"]) {
        const { body, status } = yield* call("GET", `/v1/webhook-endpoints/main/deliveries${query}`)
        assert.deepStrictEqual([status, body["part"]], [400, "query"], query)
      }
      const elsewhere = yield* call("POST", "/v1/webhook-endpoints/other/ping")
      assert.deepStrictEqual([elsewhere.status, elsewhere.body["resource"]], [404, "webhook_endpoint"])
    }))
})
