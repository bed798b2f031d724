import type { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import { EndpointId, IntegratorId, ProgramId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import type { ProgramDefinition } from "@card-rewards/domain/Program"
import { dayMillis, instant } from "@card-rewards/domain/Time"
import { until } from "@card-rewards/testing/Polling"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { Effect } from "effect"

type Api = (typeof CardRewardsSandbox)["Service"]

/** When the story begins; the sandbox clock is moved here first, so that every run has the same dates. */
export const storyStart = Date.parse("2030-03-04T09:00:00Z")
const days = 42
const users = ["anna", "bela", "chiara", "dimitri", "elif", "farid", "greta", "hugo"]
const shops = [
  ["5411", "Corner Market"],
  ["5411", "Green Grocer"],
  ["5812", "Trattoria Luce"],
  ["4111", "City Transit"],
  ["5942", "Paper & Ink"]
] as const

/** Six weeks of a card program: what the pages are tested and pictured with. */
export const playStory = (api: Api, options: { readonly integratorId: string; readonly webhookUrl: string }) =>
  Effect.gen(function* () {
    const random = SeededRandom.make(11).next
    yield* moveTo(api, storyStart)
    yield* api.webhookEndpoints.create({ payload: { id: EndpointId.make("main"), url: options.webhookUrl } })
    for (const [index, user] of users.entries()) {
      yield* api.users.put({
        params: { userId: UserId.make(user) },
        payload: index % 3 === 0 ? { tier: "gold" } : index % 3 === 1 ? { tier: "silver" } : {}
      })
    }
    yield* publish(api, "everyday", 1, firstVersion(storyStart + 600_000))
    yield* publish(api, "euro-travel", 1, {
      ...firstVersion(storyStart + 600_000),
      asset: "EURe",
      tiers: [],
      baseRate: 75,
      caps: { perMonth: 40n * 10n ** 18n, categories: [] }
    })
    yield* deposit(api, "USDC", 900_000_000n, "opening")
    yield* deposit(api, "EURe", 120n * 10n ** 18n, "opening-eur")
    let transaction = 0
    for (let day = 1; day <= days; day++) {
      const now = storyStart + day * dayMillis
      yield* moveTo(api, now)
      if (day === 16) yield* publish(api, "everyday", 2, secondVersion(now + 600_000))
      if (day === 30) yield* deposit(api, "USDC", 420_000_000n, "top-up-april")
      if (day === 2) yield* clear(api, options.integratorId, { user: "anna", id: "laptop", amount: 64_999n, now })
      const count = 2 + Math.floor(random() * 4)
      yield* Effect.forEach(
        Array.from({ length: count }, (_, index) => index),
        () =>
          Effect.suspend(() => {
            const [mcc, descriptor] = shops[Math.floor(random() * shops.length)] ?? shops[0]
            const euro = random() < 0.15
            const amount = BigInt(800 + Math.floor(random() * random() * 90_000))
            const id = `txn-${String(++transaction).padStart(4, "0")}`
            return api.spendEvents.submit({
              payload: {
                kind: "clearing",
                integratorId: IntegratorId.make(options.integratorId),
                userId: UserId.make(users[Math.floor(random() * users.length)] ?? "anna"),
                externalTransactionId: TransactionId.make(id),
                amount: { currency: Currency.make(euro ? "EUR" : "USD"), amount },
                merchant: { descriptor, mcc },
                occurredAt: instant(now)
              }
            })
          }),
        { concurrency: "unbounded", discard: true }
      )
      yield* processed(api)
      if (day % 5 === 0) yield* claim(api, users[(day / 5) % users.length] ?? "anna", `payout-${day}`, 2n)
    }
    yield* lastWeek(api, options.integratorId)
    yield* publish(api, "everyday", 3, { ...secondVersion(storyStart + (days + 12) * dayMillis), baseRate: 125 })
    yield* processed(api)
  })

/** Examples of each kind: an authorization, a paid reward that is refunded, an event that waits. */
const lastWeek = (api: Api, integrator: string) =>
  Effect.gen(function* () {
    const now = storyStart + days * dayMillis
    const common = {
      integratorId: IntegratorId.make(integrator),
      userId: UserId.make("anna"),
      merchant: { descriptor: "Corner Market", mcc: "5411" },
      occurredAt: instant(now)
    }
    const id = (text: string) => TransactionId.make(text)
    const usd = (amount: bigint) => ({ currency: Currency.make("USD"), amount })
    yield* api.spendEvents.submit({
      payload: {
        kind: "refund",
        ...common,
        externalTransactionId: id("laptop-return"),
        originalTransactionId: id("laptop"),
        amount: usd(20_000n)
      }
    })
    yield* api.spendEvents.submit({
      payload: {
        kind: "authorization",
        ...common,
        externalTransactionId: id("hotel-hold"),
        amount: usd(18_000n),
        merchant: { descriptor: "Hotel Aurora", mcc: "7011" }
      }
    })
    yield* api.spendEvents.submit({
      payload: {
        kind: "refund",
        ...common,
        userId: UserId.make("bela"),
        externalTransactionId: id("early-refund"),
        originalTransactionId: id("not-cleared-yet"),
        amount: usd(4_200n)
      }
    })
  })

const moveTo = (api: Api, millis: number) => api.sandbox.moveClock({ payload: { now: instant(millis) } })

const deposit = (api: Api, asset: "USDC" | "EURe", amount: bigint, reference: string) =>
  api.sandbox.deposit({ payload: { reference: Reference.make(reference), amount: { asset, amount } } })

/** A purchase outside of every category. */
export const clear = (
  api: Api,
  integrator: string,
  { amount, id, now, user }: {
    readonly user: string
    readonly id: string
    readonly amount: bigint
    readonly now: number
  }
) =>
  api.spendEvents.submit({
    payload: {
      kind: "clearing",
      integratorId: IntegratorId.make(integrator),
      userId: UserId.make(user),
      externalTransactionId: TransactionId.make(id),
      amount: { currency: Currency.make("USD"), amount },
      merchant: { descriptor: "Paper & Ink", mcc: "5942" },
      occurredAt: instant(now)
    }
  })

/** Claims a share of what a user can claim. */
const claim = (api: Api, user: string, reference: string, share: bigint) =>
  Effect.gen(function* () {
    const userId = UserId.make(user)
    const { balances } = yield* api.users.balance({ params: { userId } })
    const amount = (balances[0]?.claimable ?? 0n) / share
    if (amount > 0n)
      yield* api.sandbox.claim({
        payload: { reference: Reference.make(reference), userId, amount: { asset: "USDC", amount } }
      })
  })

const publish = (api: Api, programId: string, version: number, payload: ProgramDefinition) =>
  api.programs.publish({ params: { programId: ProgramId.make(programId), version }, payload })

/** Waits until the worker has applied everything. */
const processed = (api: Api) =>
  until("the backlog", api.spendEvents.backlog(), ({ stored }) => stored === 0)

const firstVersion = (effectiveFrom: number): ProgramDefinition => ({
  asset: "USDC",
  effectiveFrom: instant(effectiveFrom),
  categories: [
    { id: "groceries", mccs: ["5411", "5499"] },
    { id: "dining", mccs: ["5812", "5814"] }
  ],
  baseRate: 100,
  categoryRates: [
    { categoryId: "groceries", rate: 300 },
    { categoryId: "dining", rate: 200 }
  ],
  merchantRates: [],
  tiers: [
    { tier: "silver", multiplier: 12_500 },
    { tier: "gold", multiplier: 15_000, categoryRates: [{ categoryId: "dining", rate: 400 }] }
  ],
  campaigns: [],
  caps: { perMonth: 60_000_000n, categories: [{ categoryId: "groceries", perMonth: 40_000_000n }] },
  exclusions: { mccs: ["6011"], merchants: [] },
  holdingPeriodDays: 14
})

const secondVersion = (effectiveFrom: number): ProgramDefinition => ({
  ...firstVersion(effectiveFrom),
  holdingPeriodDays: 7,
  campaigns: [
    {
      id: "spring",
      startsAt: instant(effectiveFrom),
      endsAt: instant(effectiveFrom + 14 * dayMillis),
      bonusRate: 150,
      categoryIds: ["dining"]
    }
  ]
})
