import { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import { LaunchedService } from "@card-rewards/testing/LaunchedService"
import { until } from "@card-rewards/testing/Polling"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import axe from "axe-core"
import { Context, Effect, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import type { Browser, BrowserContextOptions, Page } from "playwright-core"
import { playStory } from "./Story.ts"

/** Colour schemes and screen sizes. */
export const appearances = {
  light: { viewport: { width: 1280, height: 800 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", hasTouch: true }
} as const satisfies Record<string, BrowserContextOptions>
export type Appearance = keyof typeof appearances

/** Addresses within the console, by the heading that each must show. */
export const addresses: Readonly<Record<string, string>> = {
  Vault: "/",
  Rewards: "/rewards",
  Users: "/users",
  anna: "/users/anna",
  laptop: "/users/anna/transactions/laptop",
  Programs: "/programs",
  everyday: "/programs/everyday",
  "New program": "/programs/new",
  "New version of everyday": "/programs/everyday/new",
  Webhooks: "/webhooks",
  "API keys": "/keys",
  Sandbox: "/sandbox"
}

/** The whole service, six weeks into its story, with a receiver that refuses now and then. */
export class Stage extends Context.Service<
  Stage,
  {
    readonly baseUrl: string
    readonly apiKey: string
    readonly integratorId: string
    readonly api: (typeof CardRewardsSandbox)["Service"]
    readonly receiver: (typeof WebhookReceiver)["Service"]
  }
>()("@card-rewards/console/Stage") {
  static readonly layer = Layer.effect(
    Stage,
    Effect.gen(function* () {
      const { apiKey, baseUrl, integratorId } = yield* LaunchedService
      const receiver = yield* WebhookReceiver
      const api = yield* Effect.provide(
        CardRewardsSandbox,
        CardRewardsSandbox.layer({ baseUrl, apiKey }).pipe(Layer.provide(FetchHttpClient.layer))
      )
      receiver.answer(({ headers }) =>
        Number(headers["x-service-attempt"]) === 1 && /[05]$/.test(headers["x-service-event-id"] ?? "") ? 500 : 200
      )
      yield* playStory(api, { integratorId, webhookUrl: receiver.url })
      yield* untilBuilt(baseUrl)
      return Stage.of({ baseUrl, apiKey: Redacted.value(apiKey), integratorId, api, receiver })
    })
  ).pipe(Layer.provide([LaunchedService.layer, WebhookReceiver.layer]), Layer.orDie)
}

/** A start builds the console beside the service. */
export const untilBuilt = (baseUrl: string) =>
  until(
    "the console's status",
    Effect.promise(async () => (await fetch(`${baseUrl}/console`)).status),
    (status) => status === 200,
    50
  )

/** A tab, and everything in it that should not have been. */
export interface Tab {
  readonly page: Page
  readonly pageErrors: ReadonlyArray<string>
}

/** Runs a test in a tab of its own, and closes it. An error of the page fails the test. */
export const inTab = (
  browser: Browser,
  appearance: Appearance,
  test: (tab: Tab, stage: typeof Stage.Service) => Promise<void>,
  options: BrowserContextOptions = {}
) =>
  Effect.gen(function* () {
    const stage = yield* Stage
    yield* Effect.promise(async () => {
      const context = await browser.newContext({
        ...appearances[appearance],
        reducedMotion: "reduce",
        timezoneId: "Europe/Berlin",
        locale: "en-GB",
        ...options
      })
      // for what never comes
      context.setDefaultTimeout(120_000)
      const page = await context.newPage()
      const pageErrors: Array<string> = []
      page.on("pageerror", (error) => pageErrors.push(String(error.stack)))
      page.on("console", (message) => {
        // a refused request is logged by the browser itself; the tests check how the page shows it
        if (["error", "warning"].includes(message.type()) && !message.text().startsWith("Failed to load resource"))
          pageErrors.push(message.text())
      })
      page.on("request", (request) => {
        if (!request.url().startsWith(stage.baseUrl)) pageErrors.push(`asked another host: ${request.url()}`)
      })
      try {
        await test({ page, pageErrors }, stage)
        if (pageErrors.length > 0) throw new Error(pageErrors.join("\n"))
      } finally {
        await context.close()
      }
    })
  })

/** Types the key, and waits for the vault. */
export const signIn = async (page: Page, { apiKey, baseUrl }: typeof Stage.Service): Promise<void> => {
  await page.goto(`${baseUrl}/console`)
  await page.getByLabel("API key").fill(apiKey)
  await page.getByRole("button", { name: "Open the console" }).click()
  await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor()
}

/** Loads a page of the console in a tab that has the key already, and waits until nothing on it is loading. */
export const openWithKey = async (
  page: Page,
  { apiKey, baseUrl }: typeof Stage.Service,
  path: string,
  heading: string
): Promise<void> => {
  await page.addInitScript((key) => sessionStorage.setItem("card-rewards.api-key", key), apiKey)
  await page.goto(`${baseUrl}/console#${path}`)
  await untilOpen(page, heading)
}

/** Goes to a page of the console, and waits until nothing on it is loading. */
export const open = async (page: Page, path: string, heading: string): Promise<void> => {
  await page.evaluate((hash) => {
    location.hash = hash
  }, path)
  await untilOpen(page, heading)
}

const untilOpen = async (page: Page, heading: string): Promise<void> => {
  await page.getByRole("heading", { name: heading, level: 1, exact: true }).waitFor()
  await page.locator(".skeleton").first().waitFor({ state: "detached" })
}

/** The service makes the next change at an address, but its answer is lost. */
export const loseAnswer = async (page: Page, address: string): Promise<void> => {
  let isLost = false
  await page.route(address, async (route) => {
    if (isLost || route.request().method() === "GET") return route.continue()
    isLost = true
    await route.fetch()
    return route.abort()
  })
}

/** What axe finds wrong, with the elements; by all of its rules, or by some. */
export const findings = async (page: Page, ...rules: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe.source)
  return page.evaluate(async (rules) => {
    const only = rules.length === 0 ? {} : { runOnly: [...rules] }
    const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run(document, {
      resultTypes: ["violations"],
      ...only
    })
    return violations.flatMap(({ help, id, nodes }) =>
      nodes.map(
        ({ failureSummary, html }) => `${id}: ${help}: ${html.slice(0, 160)} ${failureSummary?.split("\n")[1] ?? ""}`
      )
    )
  }, rules)
}
