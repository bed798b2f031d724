import { assert } from "@effect/vitest"
import type { Browser } from "playwright-core"
import { findings, inTab, open, signIn } from "./Stage.ts"

/** The new key is shown once and taken over by the tab, which then warns before it revokes its own key. */
export const rotatesKey = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await signIn(page, stage)
    await open(page, "/keys", "API keys")
    await page.getByLabel("Name of the next key").fill("spare")
    await page.getByRole("button", { name: "Create the key" }).click()
    const secret = await page.getByRole("group", { name: "Key spare" }).locator("code").textContent()
    assert.match(secret ?? "", /^service_sk_sandbox_[0-9a-f]{64}$/)
    await page.getByText("It has not been used yet").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await page.getByRole("button", { name: "Use it in this tab too" }).click()
    await page.getByRole("row", { name: /spare.*this tab/ }).waitFor()
    assert.strictEqual(await page.evaluate(() => sessionStorage.getItem("card-rewards.api-key")), secret)
    await open(page, "/keys", "API keys")
    // the rotated key is the service's own in these tests: the new one goes instead
    await page.getByRole("row", { name: /spare/ }).getByRole("button", { name: "Revoke" }).click()
    await page.getByRole("alertdialog").getByText("This tab uses it").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await page.getByRole("alertdialog").getByRole("button", { name: "Cancel" }).click()
    await page.getByRole("alertdialog").waitFor({ state: "detached" })
  })
