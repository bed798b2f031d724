import { UserId } from "@card-rewards/domain/Ids"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser } from "playwright-core"
import { printMoney } from "../src/format/Money.ts"
import { addresses, inTab, open, signIn } from "./Stage.ts"

/** The same amounts from the vault of the sandbox and, in production, from the events. */
export const vaultToTheLastUnit = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const vault = await Effect.runPromise(stage.api.sandbox.vault())
    await signIn(page, stage)
    for (const { asset, free, held } of vault.balances) {
      await page.getByRole("group", { name: "Asset" }).getByRole("button", { name: asset }).click()
      const stats = page.locator(".stats").first()
      await stats.getByText(printMoney(held, asset)).waitFor()
      await stats.getByText(printMoney(free, asset)).waitFor()
      await stats.getByText(printMoney(held - free, asset)).waitFor()
    }
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
    for (const { asset, free, held } of vault.balances) {
      await page.getByRole("group", { name: "Asset" }).getByRole("button", { name: asset }).click()
      await page.locator(".stats").first().getByText(printMoney(held, asset)).waitFor()
      await page.locator(".stats").first().getByText(printMoney(free, asset)).waitFor()
    }
  })

/** The steps of the rewards page against the balances of all users, and what waits for an event to come. */
export const rewardsAddUp = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const totals = { pending: 0n, claimable: 0n, paid: 0n, owed: 0n }
    for (const user of ["anna", "bela", "chiara", "dimitri", "elif", "farid", "greta", "hugo"]) {
      const { balances } = await Effect.runPromise(
        stage.api.users.balance({ params: { userId: UserId.make(user) } })
      )
      for (const name of ["pending", "claimable", "paid", "owed"] as const)
        totals[name] += balances[0]?.[name] ?? 0n
    }
    assert.isAbove(Number(totals.owed), 0)
    await signIn(page, stage)
    await open(page, addresses["Rewards"] ?? "", "Rewards")
    for (const amount of Object.values(totals))
      await page.locator(".funnel").getByText(printMoney(amount, "USDC")).first().waitFor()
    await page.getByRole("columnheader", { name: "Waits for" }).waitFor()
    await page
      .getByRole("row", { name: /early-refund/ })
      .getByText("not-cleared-yet")
      .waitFor()
  })

/** From the search of a user to the calculation of a reward that was paid and then refunded. */
export const explainsReward = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const { balances } = await Effect.runPromise(
      stage.api.users.balance({ params: { userId: UserId.make("anna") } })
    )
    await signIn(page, stage)
    await page.getByRole("link", { name: "Users" }).click()
    await page.getByRole("searchbox").or(page.getByLabel("User id")).first().fill("anna")
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
    await page.getByRole("listitem").filter({ hasText: "had been paid and is owed" }).waitFor()
  })
