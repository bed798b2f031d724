import { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { EndpointId, IntegratorId, ProgramId, Reference, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { instant } from "@card-rewards/domain/Time"
import { LaunchedService } from "@card-rewards/testing/LaunchedService"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, describe, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import type { Browser, Page } from "playwright-core"
import { launch } from "./Browser.ts"
import { appearances, untilBuilt } from "./Stage.ts"
import { memoryOf } from "./volume/Memory.ts"
import { eventCount, rewardCount, seed, storyMillis, transactionOf, userOf } from "./volume/Seed.ts"

/** Set: a year of history is stored, and each page is measured. It takes minutes. */
const isChosen = process.env["CONSOLE_VOLUME"] !== undefined

const usableWithinMillis = 2_000
const maxMegabytes = 200

const programId = ProgramId.make("everyday")
const userId = UserId.make(userOf(7))

/** Addresses with the heading of each, and what must be on it before it can be used. */
const pages: ReadonlyArray<readonly [path: string, heading: string, content: string]> = [
  ["/", "Vault", ".statement"],
  ["/rewards", "Rewards", ".chart .bar"],
  ["/users", "Users", ".rows .row"],
  [`/users/${userId}`, userId, ".reward-row"],
  [`/users/${userId}/transactions/${transactionOf(7)}`, transactionOf(7), ".outcomes .row"],
  ["/programs", "Programs", ".version-span"],
  [`/programs/${programId}`, programId, ".definition"],
  [`/programs/${programId}/new`, `New version of ${programId}`, "#baseRate"],
  ["/webhooks", "Webhooks", ".delivery-row"],
  ["/keys", "API keys", ".table"],
  ["/sandbox", "Sandbox", ".clock-face"]
]

const { browser, reason } = isChosen ? await launch() : { browser: undefined, reason: "it was not chosen" }
if (isChosen && browser === undefined) throw new Error(reason)

describe.skipIf(!isChosen)("the console on real volumes", () => {
  if (browser === undefined) return
  const services = Layer.merge(LaunchedService.layer, WebhookReceiver.layer)
  layer(services, { excludeTestServices: true })((it) => {
    it.effect(
      `each page is usable in ${usableWithinMillis} ms, in a tab of ${maxMegabytes} MB, after ${eventCount} events`,
      () => measureAll(browser),
      3_600_000
    )
  })
})

const measureAll = (browser: Browser) =>
  Effect.gen(function* () {
    const service = yield* LaunchedService
    const api = yield* Effect.provide(
      CardRewardsSandbox,
      CardRewardsSandbox.layer(service).pipe(Layer.provide(FetchHttpClient.layer))
    )
    yield* prepare(service, api, (yield* WebhookReceiver).url)
    yield* untilBuilt(service.baseUrl)
    const key = Redacted.value(service.apiKey)
    const rows: Array<Measured> = []
    for (const page of pages) rows.push(yield* Effect.promise(() => measurePage(browser, service.baseUrl, key, page)))
    const traffic = Effect.forever(Effect.andThen(purchase(api, service.integratorId), Effect.sleep(50)))
    rows.push(
      yield* Effect.raceFirst(
        Effect.promise(() => measureTour(browser, service.baseUrl, key)),
        traffic
      )
    )
    process.stdout.write(`\n${rewardCount} rewards, ${eventCount} events\n${print(rows)}\n\n`)
    for (const { megabytes, millis, path } of rows) {
      assert.isBelow(millis, usableWithinMillis, path)
      assert.isBelow(megabytes, maxMegabytes, path)
    }
  })

type Api = (typeof CardRewardsSandbox)["Service"]

const prepare = (service: (typeof LaunchedService)["Service"], api: Api, url: string) =>
  Effect.gen(function* () {
    yield* api.webhookEndpoints.create({ payload: { id: EndpointId.make("main"), url } })
    const { now } = yield* api.sandbox.clock()
    const startMillis = now + 600_000
    yield* api.programs.publish({
      params: { programId, version: 1 },
      payload: {
        ...plainProgram,
        effectiveFrom: instant(startMillis),
        holdingPeriodDays: 7,
        caps: { perMonth: 10n ** 12n, categories: [] }
      }
    })
    yield* api.sandbox.moveClock({ payload: { now: instant(startMillis) } })
    const sql = yield* AdminSql.connect(service.databaseUrl)
    yield* seed({ sql, integratorId: service.integratorId, programId, startMillis })
    yield* api.sandbox.moveClock({ payload: { now: instant(startMillis + storyMillis + 3_600_000) } })
    yield* api.sandbox.deposit({
      payload: { reference: Reference.make("live"), amount: { asset: "USDC", amount: 10n ** 12n } }
    })
    for (let index = 0; index < 20; index++) yield* purchase(api, service.integratorId)
  }).pipe(Effect.scoped, Effect.orDie)

let purchases = 0

/** A purchase now, of which the service makes a reward and its events. */
const purchase = (api: Api, integratorId: string) =>
  Effect.gen(function* () {
    const { now } = yield* api.sandbox.clock()
    yield* api.spendEvents.submit({
      payload: {
        kind: "clearing",
        integratorId: IntegratorId.make(integratorId),
        userId: purchases % 2 === 0 ? userId : UserId.make(userOf(purchases)),
        externalTransactionId: TransactionId.make(`live-${++purchases}`),
        amount: { currency: Currency.make("USD"), amount: 4_200n },
        merchant: { descriptor: "Corner Market", mcc: "5411" },
        occurredAt: now
      }
    })
  }).pipe(Effect.orDie)

interface Measured {
  readonly path: string
  readonly millis: number
  readonly requests: number
  readonly heapMegabytes: number
  readonly megabytes: number
}

/** A new tab that opens an address, from nothing in its cache to the content. */
const measurePage = async (
  browser: Browser,
  baseUrl: string,
  apiKey: string,
  [path, heading, content]: (typeof pages)[number]
): Promise<Measured> => {
  const { context, page, requests } = await tab(browser, apiKey)
  const startedAt = performance.now()
  await page.goto(`${baseUrl}/console#${path}`)
  await usable(page, heading, content)
  const millis = performance.now() - startedAt
  const { heapMegabytes, processMegabytes } = await memoryOf(browser, page)
  await context.close()
  return { path, millis, requests: requests.length, heapMegabytes, megabytes: processMegabytes }
}

/** All pages twice in one tab, which stays on each for 3 s while purchases come in; then a year's statement. */
const measureTour = async (browser: Browser, baseUrl: string, apiKey: string): Promise<Measured> => {
  const { context, page, requests } = await tab(browser, apiKey)
  await page.goto(`${baseUrl}/console`)
  let slowest = 0
  const time = async (step: () => Promise<void>) => {
    const startedAt = performance.now()
    await step()
    slowest = Math.max(slowest, performance.now() - startedAt)
  }
  for (const [path, heading, content] of [...pages, ...pages, ["/", "Vault", ".statement"] as const]) {
    await time(async () => {
      await page.evaluate((hash) => {
        location.hash = hash
      }, path)
      await usable(page, heading, content)
    })
    await page.waitForTimeout(3_000)
  }
  await time(async () => {
    await page.getByRole("button", { name: "1 y" }).click()
    await page.getByRole("row", { name: /^All 365/ }).waitFor()
  })
  const { heapMegabytes, processMegabytes } = await memoryOf(browser, page)
  await context.close()
  const path = "all in one tab, the slowest"
  return { path, millis: slowest, requests: requests.length, heapMegabytes, megabytes: processMegabytes }
}

const tab = async (browser: Browser, apiKey: string) => {
  const context = await browser.newContext(appearances.light)
  await context.addInitScript((key) => sessionStorage.setItem("card-rewards.api-key", key), apiKey)
  const page = await context.newPage()
  const requests: Array<string> = []
  page.on("request", (request) => requests.push(request.url()))
  return { context, page, requests }
}

const usable = async (page: Page, heading: string, content: string): Promise<void> => {
  await page.getByRole("heading", { name: heading, level: 1, exact: true }).waitFor()
  await page.locator(content).first().waitFor()
  await page.locator(".skeleton").first().waitFor({ state: "detached" })
}

const print = (rows: ReadonlyArray<Measured>): string =>
  [
    "| page | usable after | requests | script heap | tab's process |",
    "| --- | --- | --- | --- | --- |",
    ...rows.map(({ heapMegabytes, megabytes, millis, path, requests }) => {
      const cells = [path, `${Math.round(millis)} ms`, requests, `${Math.round(heapMegabytes)} MB`]
      return `| ${cells.join(" | ")} | ${Math.round(megabytes)} MB |`
    })
  ].join("\n")
