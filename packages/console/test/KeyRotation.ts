import { assert } from "@effect/vitest"
import type { Browser, Page } from "playwright-core"
import { findings, inTab, loseAnswer, openWithKey } from "./Stage.ts"

/**
 * The new key is shown once and taken over by the tab. What the tab itself does with a key is no sign of what services
 * do: it neither counts as their use of the new key, nor leaves the old one unused.
 */
export const rotatesKey = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/keys", "API keys")
    await loseSecret(page)
    await page.getByLabel("Name of the next key").fill("spare")
    await page.getByRole("button", { name: "Create the key" }).click()
    const secret = await page.getByRole("group", { name: "Key spare" }).locator("code").textContent()
    assert.match(secret ?? "", /^service_sk_sandbox_[0-9a-f]{64}$/)
    await page.getByText("It has not been used yet").waitFor()
    await page.getByText("This tab itself keeps it in use").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await page.getByRole("button", { name: "Use it in this tab too" }).click()
    await page.getByRole("row", { name: /spare.*this tab/ }).waitFor()
    assert.strictEqual(await page.evaluate(() => sessionStorage.getItem("card-rewards.api-key")), secret)
    await showUse(page)
    await page.locator("li[aria-current=step]").getByText("not known from here").waitFor()
    await page.getByText("This tab itself keeps it in use").waitFor({ state: "detached" })
    // the rotated key is the service's own in these tests, and is not revoked
    const dialog = page.getByRole("alertdialog")
    await page.locator(".step").getByRole("button", { name: /^Revoke / }).click()
    await dialog.getByText("was last used").waitFor()
    await dialog.getByText("not known from here").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await dialog.getByRole("button", { name: "Cancel" }).click()
    await dialog.waitFor({ state: "detached" })
    await page.getByRole("row", { name: /spare/ }).getByRole("button", { name: "Revoke" }).click()
    await dialog.getByText("This tab uses it").waitFor()
    await dialog.getByRole("button", { name: "Cancel" }).click()
    await dialog.waitFor({ state: "detached" })
  })

/** A key whose secret got lost on the way cannot be used: the page says what to do about it. */
const loseSecret = async (page: Page): Promise<void> => {
  await loseAnswer(page, "**/v1/api-keys")
  await page.getByLabel("Name of the next key").fill("lost-secret")
  await page.getByRole("button", { name: "Create the key" }).click()
  const alert = page.getByRole("alert").filter({ hasText: "lost-secret" })
  await alert.getByText("If its secret never appeared here, revoke it").waitFor()
}

/** The service writes down the use of a key after some seconds: here at once. */
const showUse = async (page: Page): Promise<void> => {
  await page.route("**/v1/api-keys", async (route) => {
    if (route.request().method() !== "GET") return route.continue()
    const response = await route.fetch()
    const { keys } = await response.json()
    const used = keys.map((key: object) => ({ ...key, lastUsedAt: "2030-01-01T00:00:00.000Z" }))
    return route.fulfill({ response, json: { keys: used } })
  })
  await page.getByRole("row", { name: /spare.*1 Jan 2030/ }).waitFor()
}
