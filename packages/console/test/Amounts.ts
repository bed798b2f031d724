import { UserId } from "@card-rewards/domain/Ids"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser, Page, Route } from "playwright-core"
import { readFileSync } from "node:fs"
import { printMoney } from "../src/format/Money.ts"
import { addresses, inTab, open, openWithKey, signIn } from "./Stage.ts"

/** The vault's amounts, which in production are the same. */
export const vaultToTheLastUnit = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const { balances } = await Effect.runPromise(stage.api.sandbox.vault())
    const shows = async () => {
      for (const { asset, free, held } of balances) {
        await page.getByRole("group", { name: "Asset" }).getByRole("button", { name: asset }).click()
        for (const amount of [held, free, held - free])
          await page.locator(".stats").first().getByText(printMoney(amount, asset)).waitFor()
      }
    }
    await signIn(page, stage)
    await shows()
    await page.route("**/v1/sandbox/**", (route) =>
      route.fulfill({
        status: 404,
        contentType: "application/json",
        body: JSON.stringify({ _tag: "RouteNotFound", message: "" })
      })
    )
    await page.reload()
    await page.getByText("production").waitFor()
    assert.strictEqual(await page.getByRole("link", { name: "Sandbox" }).count(), 0)
    await shows()
  })

/**
 * The sums of the rewards page and of the vault's statement against the rewards and balances of all users; and what
 * waits for an event to come.
 */
export const rewardsAddUp = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const total = { earned: 0n, paid: 0n, reserved: 0n }
    for (const user of ["anna", "bela", "chiara", "dimitri", "elif", "farid", "greta", "hugo"]) {
      const params = { userId: UserId.make(user) }
      const { balances } = await Effect.runPromise(stage.api.users.balance({ params }))
      const { rewards } = await Effect.runPromise(stage.api.users.rewards({ params, query: { limit: 100 } }))
      for (const reward of rewards) if (reward.amount.asset === "USDC") total.earned += reward.earned
      total.paid += balances[0]?.paid ?? 0n
      total.reserved += (balances[0]?.pending ?? 0n) + (balances[0]?.claimable ?? 0n)
    }
    assert.isAbove(Number(total.paid), 0)
    await openWithKey(page, stage, addresses["Rewards"] ?? "", "Rewards")
    await page.getByRole("heading", { name: "By day", level: 2 }).waitFor()
    await page.getByRole("button", { name: "90 d" }).click()
    await page.getByRole("heading", { name: "By 2 days", level: 2 }).waitFor()
    await page.getByRole("slider", { name: "Earned in USDC by 2 days" }).waitFor()
    for (const amount of Object.values(total))
      await page.locator(".funnel").getByText(printMoney(amount, "USDC")).first().waitFor()
    await page.getByRole("columnheader", { name: "Waits for" }).waitFor()
    await page
      .getByRole("row", { name: /early-refund/ })
      .getByText("not-cleared-yet")
      .waitFor()
    await open(page, "/", "Vault")
    await page.getByRole("button", { name: "90 d" }).click()
    await page.getByRole("row", { name: /^All 90/ }).getByText(printMoney(total.earned, "USDC").slice(0, -5)).waitFor()
    const download = page.waitForEvent("download")
    await page.getByRole("button", { name: "Download CSV" }).click()
    const file = await (await download).path()
    assert.strictEqual(readFileSync(file, "utf8").trim().split("\n").length, 91)
    await failsToDownload(page)
  })

/** A download that fails is explained as any other read. */
const failsToDownload = async (page: Page): Promise<void> => {
  for (const [fail, problem] of [
    [(route: Route) => route.abort(), "The service cannot be reached"],
    [(route: Route) => route.fulfill({ status: 502, body: "<html>" }), "The service answered 502"],
    [
      (route: Route) => route.fulfill({ status: 401, json: { _tag: "Unauthorized", message: "no" } }),
      "This key is not accepted"
    ]
  ] as const) {
    await page.route("**/v1/statements/**", (route) =>
      route.request().headers()["accept"] === "text/csv" ? fail(route) : route.continue()
    )
    await page.getByRole("button", { name: "Download CSV" }).click()
    await page.getByRole("alert").getByText(problem).waitFor()
    await page.unroute("**/v1/statements/**")
  }
}

/** From the search of a user to the calculation of a reward that was paid and then refunded. */
export const explainsReward = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const { balances } = await Effect.runPromise(
      stage.api.users.balance({ params: { userId: UserId.make("anna") } })
    )
    await signIn(page, stage)
    await page.getByRole("link", { name: "Users" }).click()
    await page.getByLabel("User id, or").fill("anna")
    await page.getByRole("button", { name: "Open" }).click()
    await page.getByRole("heading", { name: "anna", level: 1 }).waitFor()
    await page
      .getByText(printMoney(balances[0]?.owed ?? 0n, "USDC").replace(" USDC", ""))
      .first()
      .waitFor()
    const laptop = page.getByRole("button", { name: /laptop/ })
    for (;;) {
      await page.locator(".reward-row").first().waitFor()
      if ((await laptop.count()) > 0) break
      await page.getByRole("button", { name: "Older" }).click()
    }
    await laptop.click()
    const calculation = page.getByRole("table", { name: "How it came about" })
    await calculation.getByRole("row", { name: /Purchase .* 649\.99 USD/ }).waitFor()
    await calculation.getByRole("row", { name: /Multiplier .*gold.* 1\.5×/ }).waitFor()
    await calculation.getByRole("row", { name: /Refund laptop-return of 200\.00 USD/ }).waitFor()
    await calculation.getByRole("row", { name: /Owed back/ }).waitFor()
  })
