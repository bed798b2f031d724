import { dayMillis } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import type { Browser, Page } from "playwright-core"
import { inTab, openWithKey, type Stage } from "./Stage.ts"
import { clear } from "./Story.ts"

const user = "zoë/1 %"

/** From the enrollment of a user to the claim of the rewards, with what the form and the vault refuse. */
export const playsSandbox = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/sandbox", "Sandbox")
    await enroll(page)
    await purchase(page)
    await page.getByRole("button", { name: "+ 7 days" }).click()
    await page.getByText("The clock was moved").waitFor()
    await claimAll(page, stage)
    await withdrawTooMuch(page)
    await panel(page, "Send a card event").getByRole("link", { name: user }).click()
    await page.getByRole("heading", { name: user, level: 1 }).waitFor()
    await page.getByRole("button", { name: /first everyday v2 Paid/ }).waitFor()
  })

const panel = (page: Page, title: string) =>
  page.locator("section.panel").filter({ has: page.getByRole("heading", { name: title, level: 2, exact: true }) })

const enroll = async (page: Page) => {
  const form = panel(page, "Enroll a user")
  await form.getByLabel("User id").fill(user)
  await form.getByLabel("Country").fill("Germany")
  await form.getByRole("button", { name: "Enroll" }).click()
  await form.getByRole("alert").getByText("two letters").waitFor()
  await form.getByLabel("Country").fill("de")
  await form.getByRole("button", { name: "Enroll" }).click()
  await form.getByRole("status").getByText("Enrolled").waitFor()
}

const purchase = async (page: Page) => {
  const form = panel(page, "Send a card event")
  await form.getByLabel("User id").fill(user)
  await form.getByLabel("Transaction id").fill("first")
  await form.getByLabel("Amount").fill("100.00")
  await form.getByRole("button", { name: "Send" }).click()
  await form.getByRole("status").getByText("Accepted").waitFor()
  // after the next second: an event that may not have arrived can be sent again as it was
  await page.waitForTimeout(1_100)
  await form.getByRole("button", { name: "Send" }).click()
  await form.getByRole("status").getByText("Stored before; nothing changed.").waitFor()
}

/** The claimable amount follows what other clients send and what the worker applies. */
const claimAll = async (page: Page, stage: typeof Stage.Service) => {
  const vault = panel(page, "Vault")
  await vault.getByRole("button", { name: "Claim" }).first().click()
  await vault.getByLabel("User id").fill(user)
  await vault.getByText("Claimable: 3.00 USDC").waitFor()
  const { now } = await Effect.runPromise(stage.api.sandbox.clock())
  const second = { user, id: "second", amount: 30_000n, now: now - 8 * dayMillis }
  await Effect.runPromise(clear(stage.api, stage.integratorId, second))
  await vault.getByText("Claimable: 6.00 USDC").waitFor()
  await vault.getByRole("button", { name: "all of it" }).click()
  await vault.getByRole("button", { name: "Claim 6.00 USDC" }).click()
  await page.getByText("Claim recorded").waitFor()
}

const withdrawTooMuch = async (page: Page) => {
  const vault = panel(page, "Vault")
  await vault.getByRole("button", { name: "Withdraw" }).click()
  await vault.getByLabel("Amount").fill("1000000")
  await vault.getByRole("button", { name: "Withdraw 1,000,000.00 USDC" }).click()
  await vault.getByRole("alert").getByText("The vault refuses this").waitFor()
}
