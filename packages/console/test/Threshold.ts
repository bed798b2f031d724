import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser } from "playwright-core"
import { findings, inTab, openWithKey } from "./Stage.ts"

/** By keyboard: a threshold above the free money, and its removal. */
export const setsThreshold = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const threshold = async () => (await Effect.runPromise(stage.api.vault.get())).vault.lowFunds
    await openWithKey(page, stage, "/", "Vault")
    await page.getByText("No threshold").waitFor()
    await page.getByLabel("Threshold").fill("1.1234567")
    await page.getByText("An amount with at most 6 decimals").waitFor()
    await page.getByLabel("Threshold").fill("1000000.5")
    await page.keyboard.press("Enter")
    await page.getByText("falls below 1,000,000.50 USDC").waitFor()
    await page.getByText("Below it now").waitFor()
    assert.deepStrictEqual(await findings(page, "color-contrast"), [])
    assert.deepStrictEqual(await threshold(), [{ asset: "USDC", threshold: 1_000_000_500_000n }])
    await page.getByRole("button", { name: "Remove the threshold" }).focus()
    await page.keyboard.press("Enter")
    await page.getByText("No threshold").waitFor()
    assert.deepStrictEqual(await threshold(), [])
  })
