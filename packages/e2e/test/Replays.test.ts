import { verifyWebhook } from "@card-rewards/client"
import { EndpointId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import type { ReplayRequest } from "@card-rewards/domain/Replay"
import { until } from "@card-rewards/testing/Polling"
import { TestService } from "@card-rewards/testing/TestService"
import { type Received, WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Record } from "effect"

const params = { id: EndpointId.make("main") }
const userId = UserId.make("ann")

/** Submits purchases, each of which earns a reward. */
const purchase = Effect.fnUntraced(function*(prefix: string, count: number) {
  const { api, integratorId } = yield* TestService
  const { now } = yield* api.sandbox.clock()
  const clearing = {
    kind: "clearing" as const,
    integratorId,
    userId,
    amount: { currency: Currency.make("USD"), amount: 1_000n },
    merchant: { descriptor: "Shop", mcc: "5411" },
    occurredAt: now
  }
  const ids = Array.from({ length: count }, (_, index) => TransactionId.make(`${prefix}${index}`))
  yield* Effect.forEach(ids, (externalTransactionId) =>
    api.spendEvents.submit({ payload: { ...clearing, externalTransactionId } }), { concurrency: 16 })
})

const deposit = Effect.fnUntraced(function*(reference: string) {
  const { api } = yield* TestService
  const amount = { asset: "USDC" as const, amount: 1_000_000_000n }
  yield* api.sandbox.deposit({ payload: { reference: Reference.make(reference), amount } })
})

/** Waits for the end of a replay. */
const done = Effect.fnUntraced(function*(replayId: string) {
  const { api } = yield* TestService
  const read = api.webhookEndpoints.getReplay({ params: { ...params, replayId } })
  return (yield* until("the replay's end", read, ({ replay }) => replay.state === "done")).replay
})

const idOf = ({ headers }: Received): string => headers["x-service-event-id"] ?? ""
const secondOf = ({ headers }: Received): number => Number(headers["webhook-timestamp"])

/** Waits until the machine's clock shows a later second than the signatures of these requests. */
const untilLaterThan = (received: ReadonlyArray<Received>) => {
  const latest = Math.max(...received.map(secondOf))
  return until("a later second", Clock.currentTimeMillis, (now) => Math.floor(now / 1_000) > latest)
}

/** What a replay sends from its request to its end, each attempt verified. */
const replayed = Effect.fnUntraced(function*(secret: string, payload: ReplayRequest) {
  const { api } = yield* TestService
  const { received } = yield* WebhookReceiver
  const before = received.length
  yield* untilLaterThan(received)
  const startedAt = yield* Clock.currentTimeMillis
  const { replay } = yield* api.webhookEndpoints.startReplay({ params, payload })
  assert.strictEqual((yield* done(replay.id)).events, replay.events)
  const again = received.slice(before)
  assert.strictEqual(again.length, replay.events)
  for (const one of again) {
    const { body, headers } = one
    assert.strictEqual((yield* verifyWebhook({ body, headers, secrets: [secret] })).id, idOf(one))
    assert.strictEqual(headers["x-service-attempt"], "1")
    assert.isAtLeast(secondOf(one), Math.floor(startedAt / 1_000), "signed anew")
  }
  return again
})

/** The revisions of each reward in the order in which they came. */
const revisions = (received: ReadonlyArray<Received>) => {
  const rewards = received.map(({ body }) => JSON.parse(body).data).filter(({ revision }) => revision !== undefined)
  return Record.map(Object.groupBy(rewards, ({ id }) => id), (events = []) => events.map(({ revision }) => revision))
}

layer(TestService.layer(), { excludeTestServices: true })("a replay", (it) => {
  it.effect("delivers the events of a time and of some kinds again: same bytes, in order, freshly signed", () =>
    Effect.gen(function*() {
      const { api, idle, pass, publish } = yield* TestService
      const receiver = yield* WebhookReceiver
      yield* api.users.put({ params: { userId }, payload: {} })
      yield* publish()
      yield* deposit("first")
      const { secret = "" } = yield* api.webhookEndpoints.create({ payload: { ...params, url: receiver.url } })
      yield* purchase("a", 5)
      yield* idle
      yield* pass("1 day")
      const { now: middle } = yield* api.sandbox.clock()
      yield* pass("14 days")
      yield* deposit("second")
      const balance = api.users.balance({ params: { userId } })
      yield* until("claimable rewards", balance, ({ balances: [usdc] }) => usdc?.claimable === 500_000n)
      yield* idle
      const { events } = yield* api.events.list({ query: {} })
      assert.strictEqual(events.length, 12)
      assert.strictEqual(receiver.received.length, 11, "all but the deposit from before the endpoint")
      const bodies = new Map(receiver.received.map((one) => [idOf(one), one.body]))
      const idsOf = (wanted: (event: typeof events[number]) => boolean) => events.filter(wanted).map(({ id }) => id)

      const claimable = yield* replayed(secret, { from: middle, kinds: ["reward.claimable"] })
      assert.sameMembers(claimable.map(idOf), idsOf(({ kind }) => kind === "reward.claimable"))
      const before = yield* replayed(secret, { from: events[0]?.createdAt ?? middle, to: middle })
      assert.sameMembers(before.map(idOf), idsOf(({ createdAt }) => createdAt < middle))
      const all = yield* replayed(secret, { from: events[0]?.createdAt ?? middle })
      assert.sameMembers(all.map(idOf), idsOf(() => true))
      const delivered = [...claimable, ...before, ...all].filter((one) => bodies.has(idOf(one)))
      assert.strictEqual(delivered.length, 5 + 5 + 11)
      for (const one of delivered) assert.strictEqual(one.body, bodies.get(idOf(one)))
      assert.deepStrictEqual(Object.values(revisions(all)), Array.from({ length: 5 }, () => [1, 2]))
    }))

  it.effect("of 500 events does not hold up a new event, and a second replay is refused until it is done", () =>
    Effect.gen(function*() {
      const { api, idle } = yield* TestService
      const receiver = yield* WebhookReceiver
      const { now: from } = yield* api.sandbox.clock()
      yield* purchase("b", 500)
      yield* idle

      // 16 requests in flight take 3 s for 500 events
      receiver.answer({ status: 200, delayMillis: 100 })
      const before = receiver.received.length
      const payload = { from, kinds: ["reward.pending"] as const }
      const { replay } = yield* api.webhookEndpoints.startReplay({ params, payload })
      assert.containsSubset(replay, { state: "running", events: 500 })
      const count = Effect.sync(() => receiver.received.length - before)
      yield* until("the first events", count, (received) => received >= 16)
      const second = yield* Effect.flip(api.webhookEndpoints.startReplay({ params, payload }))
      assert.deepInclude(second, { _tag: "ReplayRunning", replayId: replay.id })
      const { eventId } = yield* api.webhookEndpoints.ping({ params })
      assert.strictEqual((yield* done(replay.id)).events, 500)
      receiver.answer(200)

      const received = receiver.received.slice(before).map(idOf)
      assert.strictEqual(received.length, 501)
      assert.strictEqual(new Set(received).size, 501)
      assert.isBelow(received.indexOf(eventId), 400)
      const next = yield* api.webhookEndpoints.startReplay({ params, payload: { from, kinds: ["webhook.ping"] } })
      assert.strictEqual((yield* done(next.replay.id)).events, 1)
    }))
})
