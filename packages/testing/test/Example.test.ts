import { verifyWebhook } from "@card-rewards/client"
import { EndpointId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { TestService } from "@card-rewards/testing/TestService"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"

layer(TestService.layer(), { excludeTestServices: true })("cashback", (it) => {
  it.effect("can be claimed after the holding period, and the integrator receives the event", () =>
    Effect.gen(function*() {
      const { api, integratorId, pass, publish, idle } = yield* TestService
      const receiver = yield* WebhookReceiver
      const userId = UserId.make("ann")
      yield* api.users.put({ params: { userId }, payload: {} })
      yield* publish({ holdingPeriodDays: 30 })
      const { secret = "" } = yield* api.webhookEndpoints.create({
        payload: { id: EndpointId.make("main"), url: receiver.url }
      })
      yield* api.sandbox.deposit({
        payload: { reference: Reference.make("d1"), amount: { asset: "USDC", amount: 5_000_000n } }
      })
      const { now } = yield* api.sandbox.clock()
      yield* api.spendEvents.submit({
        payload: {
          kind: "clearing",
          integratorId,
          userId,
          externalTransactionId: TransactionId.make("t1"),
          amount: { currency: Currency.make("USD"), amount: 12_345n },
          merchant: { descriptor: "Corner shop", mcc: "5411" },
          occurredAt: now
        }
      })
      yield* idle
      yield* pass("30 days")
      const { balances: [usdc] } = yield* api.users.balance({ params: { userId } })
      assert.strictEqual(usdc?.claimable, 1_234_500n)

      yield* idle
      const events = yield* Effect.forEach(
        receiver.received,
        ({ body, headers }) => verifyWebhook({ body, headers, secrets: [secret] })
      )
      assert.deepStrictEqual(
        events.map(({ kind }) => kind).toSorted(),
        ["reward.claimable", "reward.pending", "vault.deposit_confirmed"]
      )
    }))
})
