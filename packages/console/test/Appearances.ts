import { assert } from "@effect/vitest"
import type { Browser } from "playwright-core"
import { printTime } from "../src/format/Time.ts"
import { addresses, type Appearance, findings, inTab, open, signIn } from "./Stage.ts"

/** Accessibility rules that an appearance can change; all rules apply to the first one. */
const ownRules: Record<Appearance, ReadonlyArray<string>> = {
  light: [],
  dark: ["color-contrast"],
  phone: ["color-contrast", "target-size", "scrollable-region-focusable", "landmark-unique"]
}

/** Every page passes axe, and fits into the width of the window. */
export const passesAxe = (browser: Browser, appearance: Appearance) =>
  inTab(browser, appearance, async ({ page }, stage) => {
    await page.goto(`${stage.baseUrl}/console`)
    await page.getByLabel("API key").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await signIn(page, stage)
    const found: Array<string> = []
    for (const [heading, path] of Object.entries(addresses)) {
      await open(page, path, heading)
      for (const finding of await findings(page, ...ownRules[appearance])) found.push(`${heading}: ${finding}`)
      const beyond = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth
      )
      if (beyond > 0) found.push(`${heading}: ${beyond} px too wide`)
    }
    assert.deepStrictEqual(found, [])
  })

/** Local time, with its zone, in place of UTC, also after the page is loaded again. */
export const showsLocalTime = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await signIn(page, stage)
    const first = page.getByRole("region", { name: "Movements" }).locator("time").last()
    const at = new Date((await first.getAttribute("datetime")) ?? "")
    assert.strictEqual(await first.textContent(), printTime(at.getTime()))
    await page.getByRole("button", { name: "Local time" }).focus()
    await page.keyboard.press("Enter")
    await page.getByRole("columnheader", { name: "When (local time)" }).waitFor()
    const inBerlin = printTime(at.getTime() + 3_600_000)
    assert.strictEqual(await first.textContent(), `${inBerlin} CET`)
    assert.deepStrictEqual(await findings(page), [])
    await page.reload()
    await page.getByRole("columnheader", { name: "When (local time)" }).waitFor()
    await open(page, "/users/anna", "anna")
    await page.locator(".timeline time").first().waitFor()
    const shown = await page.locator(".timeline li").evaluateAll((entries) =>
      entries.map((entry) => [
        entry.querySelector("time")?.getAttribute("datetime") ?? "",
        entry.querySelector("time")?.textContent ?? ""
      ])
    )
    for (const [instant = "", clock] of shown) {
      assert.strictEqual(clock, new Date(instant).toLocaleTimeString("en-GB", { timeZone: "Europe/Berlin" }))
    }
  })
