import { follow, items } from "@card-rewards/client/Pages"
import { EndpointId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { TestService } from "@card-rewards/testing/TestService"
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Stream } from "effect"

const userId = UserId.make("ann")
const ids = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index}`)

layer(TestService.layer(), { excludeTestServices: true })("the client's streams of the service's pages", (it) => {
  it.effect("have each item once, in the order of the list, for any size of pages", () =>
    Effect.gen(function*() {
      const { api, integratorId, publish, idle } = yield* TestService
      const receiver = yield* WebhookReceiver
      const endpoint = { id: EndpointId.make("main") }
      yield* api.users.put({ params: { userId }, payload: {} })
      yield* publish()
      yield* api.webhookEndpoints.create({ payload: { ...endpoint, url: receiver.url } })
      const deposit = { reference: Reference.make("d"), amount: { asset: "USDC" as const, amount: 100_000_000n } }
      yield* api.sandbox.deposit({ payload: deposit })
      const { now } = yield* api.sandbox.clock()
      const common = {
        integratorId,
        userId,
        amount: { currency: Currency.make("USD"), amount: 1_000n },
        merchant: { descriptor: "Shop", mcc: "5411" },
        occurredAt: now
      }
      for (const id of ids("c", 5)) {
        const payload = { ...common, kind: "clearing" as const, externalTransactionId: TransactionId.make(id) }
        yield* api.spendEvents.submit({ payload })
      }
      for (const id of ids("r", 5)) {
        const originalTransactionId = TransactionId.make(`unknown-${id}`)
        const externalTransactionId = TransactionId.make(id)
        yield* api.spendEvents.submit({
          payload: { ...common, kind: "refund", externalTransactionId, originalTransactionId }
        })
      }
      yield* idle

      const small = { limit: 2 }
      const rewards = items((query) => api.users.rewards({ params: { userId }, query: { ...query, ...small } }))
      assert.deepStrictEqual(
        (yield* Stream.runCollect(rewards)).map(({ transaction }) => transaction.externalTransactionId),
        ids("c", 5).toReversed()
      )
      const waiting = items((query) => api.spendEvents.waiting({ query: { ...query, ...small, state: "waiting" } }))
      assert.deepStrictEqual(
        (yield* Stream.runCollect(waiting)).map(({ event }) => event.externalTransactionId),
        ids("r", 5).toReversed()
      )
      const deliveries = items((query) =>
        api.webhookEndpoints.deliveries({ params: endpoint, query: { ...query, ...small } }))
      const pages = follow((query) => api.events.list({ query: { ...query, ...small } }))
      const events = (yield* pages.pipe(Stream.take(3), Stream.runCollect)).flatMap((page) => page.events)
      assert.deepStrictEqual(events.map(({ kind }) => kind), [
        "vault.deposit_confirmed",
        ...ids("c", 5).map(() => "reward.pending" as const)
      ])
      assert.sameMembers(
        (yield* Stream.runCollect(deliveries)).map(({ eventId }) => eventId),
        events.map(({ id }) => id)
      )
    }))
})

const limits = { read: { perSecond: 1, burst: 1 } }

layer(
  TestService.layer({ limits }),
  { excludeTestServices: true }
)("the client before the service's rate limit", (it) => {
  it.effect("waits for the time in Retry-After, and no call fails", () =>
    Effect.gen(function*() {
      const { api } = yield* TestService
      const startedAt = yield* Clock.currentTimeMillis
      yield* Effect.replicateEffect(api.programs.list(), 3)
      assert.isAtLeast((yield* Clock.currentTimeMillis) - startedAt, 1_900)
    }))
})
