import { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import { verifyWebhook } from "@card-rewards/client/WebhookSignature"
import { EndpointId, IntegratorId, ProgramId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import type { Reward } from "@card-rewards/domain/Reward"
import { dayMillis, type Instant, instant } from "@card-rewards/domain/Time"
import { LaunchedService } from "@card-rewards/testing/LaunchedService"
import { type Received, WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { FetchHttpClient } from "effect/http"
import { Webhook } from "standardwebhooks"
import Stripe from "stripe"

const client = Layer.unwrap(Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* LaunchedService
  return CardRewardsSandbox.layer({ baseUrl, apiKey }).pipe(Layer.provide(FetchHttpClient.layer))
}))

const services = Layer.provideMerge(client, Layer.mergeAll(LaunchedService.layer, WebhookReceiver.layer))

/** Repeats a request until its answer is as expected, for at most a minute. */
const eventually = <A, E, R>(request: Effect.Effect<A, E, R>, expected: (answer: A) => boolean) =>
  request.pipe(
    Effect.filterOrFail(expected, (answer) => ({ stillIs: answer })),
    Effect.retry(Schedule.spaced("20 millis").pipe(Schedule.upTo({ duration: "60 seconds" })))
  )

const userId = UserId.make("anna:1/ü😀")
const usd = (cents: bigint) => ({ currency: Currency.make("USD"), amount: cents })
const usdc = (amount: bigint) => ({ asset: "USDC" as const, amount })

layer(
  services,
  { excludeTestServices: true, timeout: "120 seconds" }
)("an integrator, through the typed client", (it) => {
  it.effect("enrolls, publishes, spends, funds, claims, and receives signed webhooks", () =>
    Effect.gen(function*() {
      const { admin, integratorId: id } = yield* LaunchedService
      const receiver = yield* WebhookReceiver
      const api = yield* CardRewardsSandbox
      const integratorId = IntegratorId.make(id)
      yield* api.health()

      const { outcome } = yield* api.users.put({ params: { userId }, payload: {} })
      assert.strictEqual(outcome, "enrolled")

      const { now } = yield* api.sandbox.clock()
      yield* api.programs.publish({
        params: { programId: ProgramId.make("cashback"), version: 1 },
        payload: definition(instant(now + 3_600_000))
      })
      yield* api.sandbox.moveClock({ payload: { now: instant(now + 3_600_000) } })
      const { secret } = yield* api.webhookEndpoints.create({
        payload: { id: EndpointId.make("main"), url: receiver.url }
      })
      assert.isDefined(secret)
      yield* api.sandbox.deposit({ payload: { reference: Reference.make("d1"), amount: usdc(100_000_000n) } })

      const spend = {
        integratorId,
        userId,
        merchant: { descriptor: "Corner shop", mcc: "5411" },
        occurredAt: instant(now + 3_600_000)
      }
      yield* api.spendEvents.submit({
        payload: {
          ...spend,
          kind: "authorization",
          externalTransactionId: TransactionId.make("a1"),
          amount: usd(10_000n)
        }
      })
      const balance = api.users.balance({ params: { userId } }).pipe(Effect.map(({ balances: [first] }) => first))
      yield* eventually(balance, (usdc) => usdc?.expected === 3_000_000n)

      const clearing = {
        ...spend,
        kind: "clearing" as const,
        externalTransactionId: TransactionId.make("c1"),
        authorizationId: TransactionId.make("a1"),
        amount: usd(12_345n)
      }
      assert.isFalse((yield* api.spendEvents.submit({ payload: clearing })).duplicate)
      assert.isTrue((yield* api.spendEvents.submit({ payload: clearing })).duplicate)
      yield* eventually(balance, (usdc) => usdc?.expected === 0n && usdc.pending === 3_703_500n)

      yield* api.sandbox.moveClock({ payload: { now: instant(now + 3_600_000 + 14 * dayMillis) } })
      assert.strictEqual((yield* balance)?.claimable, 3_703_500n)
      yield* api.sandbox.claim({ payload: { reference: Reference.make("p1"), userId, amount: usdc(3_703_500n) } })
      assert.strictEqual((yield* balance)?.paid, 3_703_500n)

      const { rewards: [reward] } = yield* api.users.rewards({ params: { userId }, query: {} })
      assert.deepStrictEqual([reward?.state, reward?.paid, reward?.programVersion], ["Paid", 3_703_500n, 1])

      yield* checkWebhooks(secret ?? "", reward)
      assert.include(yield* admin("audit"), "holds")
    }))
})

/** 1 %, and 3 % for groceries; rewards are pending for 14 days. */
const definition = (effectiveFrom: Instant) => ({
  asset: "USDC" as const,
  effectiveFrom,
  categories: [{ id: "groceries", mccs: ["5411"] }],
  baseRate: 100,
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  merchantRates: [],
  tiers: [],
  campaigns: [],
  caps: { perMonth: 50_000_000n, categories: [] },
  exclusions: { mccs: [], merchants: [] },
  holdingPeriodDays: 14
})

/** Waits for the webhooks of all changes and verifies them; that of the payment has the reward as the api shows it. */
const checkWebhooks = Effect.fnUntraced(function*(secret: string, paid: Reward | undefined) {
  const { received } = yield* WebhookReceiver
  const wanted = [
    "vault.deposit_confirmed",
    "reward.pending",
    "reward.claimable",
    "vault.claim_confirmed",
    "reward.paid"
  ]
  yield* eventually(Effect.sync(() => received.length), (count) => count >= wanted.length)
  for (const { body, headers } of received) {
    const event = yield* verify(body, headers, secret)
    if (event.kind === "reward.paid") assert.deepStrictEqual(event.data, paid)
  }
  assert.sameMembers(received.map(({ body }) => JSON.parse(body).kind), wanted)
})

/** Verifies a webhook with this client, and with the libraries of Stripe and of Standard Webhooks. */
const verify = Effect.fnUntraced(function*(body: string, headers: Received["headers"], secret: string) {
  const event = yield* verifyWebhook({ body, headers, secrets: [secret] })
  assert.strictEqual(headers["x-service-event-id"], event.id)
  new Stripe("sk_unused").webhooks.constructEvent(body, headers["x-service-signature"] ?? "", secret)
  new Webhook(secret.replace("service_", "")).verify(body, headers)
  return event
})
