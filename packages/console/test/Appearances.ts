import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser } from "playwright-core"
import { printTime } from "../src/format/Time.ts"
import { addresses, type Appearance, findings, inTab, open, signIn } from "./Stage.ts"

/** Accessibility rules that an appearance can change; all rules apply to the first one. */
const ownRules: Record<Appearance, ReadonlyArray<string>> = {
  light: [],
  dark: ["color-contrast"],
  phone: ["color-contrast", "target-size", "scrollable-region-focusable", "landmark-unique"]
}

/** Every page passes axe, and fits into the width of the window, in each appearance; their tabs are checked at once. */
export const passesAxe = (browser: Browser) =>
  Effect.forEach(["light", "dark", "phone"] as const, (appearance) => checkPages(browser, appearance), {
    concurrency: "unbounded",
    discard: true
  })

const checkPages = (browser: Browser, appearance: Appearance) =>
  inTab(browser, appearance, async ({ page }, stage) => {
    await page.goto(`${stage.baseUrl}/console`)
    await page.getByLabel("API key").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await signIn(page, stage)
    const found: Array<string> = []
    for (const [heading, path] of Object.entries(addresses)) {
      await open(page, path, heading)
      for (const finding of await findings(page, ...ownRules[appearance]))
        found.push(`${appearance}, ${heading}: ${finding}`)
      const beyond = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth
      )
      if (beyond > 0) found.push(`${appearance}, ${heading}: ${beyond} px too wide`)
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
    assert.strictEqual(await first.textContent(), `${inBerlin} CET`)
  })
