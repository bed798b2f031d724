import { assert } from "@effect/vitest"
import type { Browser } from "playwright-core"
import { inTab, open, signIn } from "./Stage.ts"

/** No address has the key, nothing outlives the tab, and signing out forgets it. */
export const keepsKeyInTab = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const requested: Array<string> = []
    page.on("request", (request) => requested.push(request.url()))
    await signIn(page, stage)
    await page.reload()
    await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor()
    assert.isFalse(requested.some((url) => url.includes(stage.apiKey.slice(-20))))
    assert.isFalse(page.url().includes(stage.apiKey.slice(-20)))
    const kept = await page.evaluate(() => ({
      local: JSON.stringify({ ...localStorage }),
      cookies: document.cookie,
      session: JSON.stringify({ ...sessionStorage })
    }))
    assert.notInclude(kept.local + kept.cookies, stage.apiKey.slice(-20))
    assert.include(kept.session, stage.apiKey)
    await open(page, "/users/anna", "anna")
    await page.getByRole("button", { name: "Sign out" }).click()
    await page.getByLabel("API key").waitFor()
    assert.strictEqual(await page.evaluate(() => JSON.stringify({ ...sessionStorage })), "{}")
    assert.isTrue(page.url().endsWith("#/"), page.url())
    assert.strictEqual(await page.title(), "Card Rewards console")
  })

/** The stored key of a tab is tried again where the service could not be asked. */
export const retriesStoredKey = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await signIn(page, stage)
    await page.route("**/v1/programs", (route) => route.abort())
    await page.reload()
    await page.getByRole("alert").getByText("The service cannot be reached").waitFor()
    await page.unroute("**/v1/programs")
    await page.getByRole("button", { name: "Try again" }).click()
    await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor()
  })

/** The key can be typed again. */
export const explainsRefusedKey = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, { baseUrl }) => {
    await page.goto(`${baseUrl}/console`)
    await page.getByLabel("API key").fill(`service_sk_sandbox_${"0".repeat(64)}`)
    await page.getByRole("button", { name: "Open the console" }).click()
    await page.getByRole("alert").getByText("This key is not accepted").waitFor()
    await page.getByLabel("API key").fill("x")
    assert.isTrue(await page.getByRole("button", { name: "Open the console" }).isEnabled())
  })

/** A key that the service is still checking when one signs out is not taken over afterwards. */
export const staysSignedOut = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await signIn(page, stage)
    await open(page, "/keys", "API keys")
    await page.getByLabel("Name of the next key").fill("left")
    await page.getByRole("button", { name: "Create the key" }).click()
    await page.getByRole("button", { name: "Use it in this tab too" }).waitFor()
    const released = Promise.withResolvers<void>()
    await page.route("**/v1/programs*", async (route) => {
      await released.promise
      await route.continue()
    })
    const checked = page.waitForResponse("**/v1/programs*")
    await page.getByRole("button", { name: "Use it in this tab too" }).click()
    await page.getByRole("button", { name: "Sign out" }).click()
    await page.getByLabel("API key").waitFor()
    released.resolve()
    await (await checked).finished()
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 100)))
    assert.isTrue(await page.getByLabel("API key").isVisible())
    assert.strictEqual(await page.evaluate(() => JSON.stringify({ ...sessionStorage })), "{}")
  })
