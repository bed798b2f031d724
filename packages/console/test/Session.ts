import { assert } from "@effect/vitest"
import type { Browser } from "playwright-core"
import { inTab, signIn } from "./Stage.ts"

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
    await page.getByRole("button", { name: "Sign out" }).click()
    await page.getByLabel("API key").waitFor()
    assert.strictEqual(await page.evaluate(() => JSON.stringify({ ...sessionStorage })), "{}")
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
