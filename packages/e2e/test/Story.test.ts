import { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import { verifyWebhook } from "@card-rewards/client/WebhookSignature"
import { EndpointId, IntegratorId, ProgramId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import type { Reward } from "@card-rewards/domain/Reward"
import { dayMillis, type Instant, instant } from "@card-rewards/domain/Time"
import { LaunchedService } from "@card-rewards/testing/LaunchedService"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
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
const eventually = <A, E, R>(ask: Effect.Effect<A, E, R>, expected: (answer: A) => boolean) =>
  ask.pipe(
    Effect.filterOrFail(expected, (answer) => ({ stillIs: answer })),
    Effect.retry(Schedule.spaced("20 millis").pipe(Schedule.upTo({ duration: "60 seconds" })))
  )

const userId = UserId.make("anna:1/ü😀")
const usd = (cents: bigint) => ({ currency: Currency.make("USD"), amount: cents })
const usdc = (amount: bigint) => ({ asset: "USDC" as const, amount })
const holdingPeriodDays = 14
/** 3 % of the clearing's 123.45 dollars. */
const earned = 3_703_500n

layer(
  services,
  { excludeTestServices: true }
)("an integrator, through the typed client", (it) => {
  it.effect("enrolls, publishes, spends, funds, claims, and receives signed webhooks", () =>
    Effect.gen(function*() {
      const { admin } = yield* LaunchedService
      const start = yield* enrollAndPublish
      const secret = yield* listenAndFund
      yield* spend(start)
      const reward = yield* claim(start)
      yield* assertWebhooks(secret, reward)
      assert.include(yield* admin("audit"), "holds")
    }))
})

/** Publishes a program and moves the clock until it is in force. Returns that time. */
const enrollAndPublish = Effect.gen(function*() {
  const api = yield* CardRewardsSandbox
  yield* api.health()
  const { outcome } = yield* api.users.put({ params: { userId }, payload: {} })
  assert.strictEqual(outcome, "enrolled")
  const { now } = yield* api.sandbox.clock()
  const start = instant(now + 3_600_000)
  yield* api.programs.publish({
    params: { programId: ProgramId.make("cashback"), version: 1 },
    payload: {
      asset: "USDC",
      effectiveFrom: start,
      categories: [{ id: "groceries", mccs: ["5411"] }],
      baseRate: 100,
      categoryRates: [{ categoryId: "groceries", rate: 300 }],
      merchantRates: [],
      tiers: [],
      campaigns: [],
      caps: { perMonth: 50_000_000n, categories: [] },
      exclusions: { mccs: [], merchants: [] },
      holdingPeriodDays
    }
  })
  yield* api.sandbox.moveClock({ payload: { now: start } })
  return start
})

/** Creates an endpoint. Returns its signing secret. */
const listenAndFund = Effect.gen(function*() {
  const api = yield* CardRewardsSandbox
  const { url } = yield* WebhookReceiver
  const { secret } = yield* api.webhookEndpoints.create({ payload: { id: EndpointId.make("main"), url } })
  yield* api.sandbox.deposit({ payload: { reference: Reference.make("d1"), amount: usdc(100_000_000n) } })
  return secret ?? assert.fail("the endpoint has no secret")
})

const balance = Effect.flatMap(CardRewardsSandbox, (api) =>
  Effect.map(api.users.balance({ params: { userId } }), ({ balances: [first] }) => first))

/** Verifies that an authorization is expected, and that its clearing, sent twice, is pending once. */
const spend = Effect.fnUntraced(function*(occurredAt: Instant) {
  const api = yield* CardRewardsSandbox
  const { integratorId } = yield* LaunchedService
  const event = {
    integratorId: IntegratorId.make(integratorId),
    userId,
    merchant: { descriptor: "Corner shop", mcc: "5411" },
    occurredAt
  }
  const authorizationId = TransactionId.make("a1")
  yield* api.spendEvents.submit({
    payload: { ...event, kind: "authorization", externalTransactionId: authorizationId, amount: usd(10_000n) }
  })
  yield* eventually(balance, (usdc) => usdc?.expected === 3_000_000n)

  const clearing = {
    ...event,
    kind: "clearing" as const,
    externalTransactionId: TransactionId.make("c1"),
    authorizationId,
    amount: usd(12_345n)
  }
  assert.isFalse((yield* api.spendEvents.submit({ payload: clearing })).duplicate)
  assert.isTrue((yield* api.spendEvents.submit({ payload: clearing })).duplicate)
  yield* eventually(balance, (usdc) => usdc?.expected === 0n && usdc.pending === earned)
})

/** Claims the reward after the holding period. Returns the paid reward. */
const claim = Effect.fnUntraced(function*(start: number) {
  const api = yield* CardRewardsSandbox
  yield* api.sandbox.moveClock({ payload: { now: instant(start + holdingPeriodDays * dayMillis) } })
  assert.strictEqual((yield* balance)?.claimable, earned)
  yield* api.sandbox.claim({ payload: { reference: Reference.make("p1"), userId, amount: usdc(earned) } })
  assert.strictEqual((yield* balance)?.paid, earned)
  const { rewards: [reward] } = yield* api.users.rewards({ params: { userId }, query: {} })
  assert.deepStrictEqual([reward?.state, reward?.paid, reward?.programVersion], ["Paid", earned, 1])
  return reward
})

/** Verifies one event of each step with this client, and with the libraries of Stripe and Standard Webhooks. */
const assertWebhooks = Effect.fnUntraced(function*(secret: string, reward: Reward | undefined) {
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
    const event = yield* verifyWebhook({ body, headers, secrets: [secret] })
    assert.strictEqual(headers["x-service-event-id"], event.id)
    new Stripe("sk_unused").webhooks.constructEvent(body, headers["x-service-signature"] ?? "", secret)
    new Webhook(secret.replace("service_", "")).verify(body, headers)
    if (event.kind === "reward.paid") assert.deepStrictEqual(event.data, reward)
  }
  assert.sameMembers(received.map(({ body }) => JSON.parse(body).kind), wanted)
})
