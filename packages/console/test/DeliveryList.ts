import type { Browser } from "playwright-core"
import { inTab, openWithKey } from "./Stage.ts"

/** A ping with its attempt, its redelivery, and the choice of a state. */
export const listsDeliveries = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/webhooks", "Webhooks")
    await page.getByRole("button", { name: "Send a ping" }).click()
    const ping = page.getByRole("button", { name: /^Ping evt_/ })
    await ping.filter({ hasText: "delivered" }).waitFor()
    await ping.first().click()
    await page.getByRole("table", { name: "Attempts" }).getByRole("cell", { name: "200" }).waitFor()
    await page.getByRole("button", { name: "Deliver again" }).click()
    await page.waitForFunction(
      () =>
        [...document.querySelectorAll(".delivery-row")].filter(
          (row) => row.textContent?.includes("Ping") === true && row.textContent.includes("delivered")
        ).length === 2
    )
    await page.getByRole("button", { name: "Exhausted" }).click()
    await page.getByText("No delivery is exhausted").waitFor()
  })
