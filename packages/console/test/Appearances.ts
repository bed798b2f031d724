import { assert } from "@effect/vitest"
import type { Browser, Page } from "playwright-core"
import { printTime } from "../src/format/Time.ts"
import { addresses, type Appearance, appearances, findings, inTab, open, signIn } from "./Stage.ts"

/** Accessibility rules that an appearance can change; all rules apply to the first one. */
const ownRules: Record<Appearance, ReadonlyArray<string>> = {
  light: [],
  dark: ["color-contrast"],
  phone: ["color-contrast", "target-size", "scrollable-region-focusable", "landmark-unique"]
}

/** Every page passes axe, and fits into the width of the window, in each appearance, which it takes on in place. */
export const passesAxe = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const found: Array<string> = []
    const check = async (heading: string, rules: typeof ownRules) => {
      for (const appearance of ["dark", "phone", "light"] as const) {
        await appear(page, appearance)
        for (const finding of await findings(page, ...rules[appearance]))
          found.push(`${appearance}, ${heading}: ${finding}`)
        const beyond = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth
        )
        if (beyond > 0) found.push(`${appearance}, ${heading}: ${beyond} px too wide`)
      }
    }
    await page.goto(`${stage.baseUrl}/console`)
    await page.getByLabel("API key").waitFor()
    await check("Sign in", { light: [], dark: [], phone: [] })
    await signIn(page, stage)
    for (const [heading, path] of Object.entries(addresses)) {
      await open(page, path, heading)
      await check(heading, ownRules)
    }
    assert.deepStrictEqual(found, [])
  })

/** Changes the colours and the size of the window, and waits until the page is drawn so. */
const appear = async (page: Page, appearance: Appearance) => {
  const { colorScheme, viewport } = appearances[appearance]
  await page.emulateMedia({ colorScheme })
  await page.setViewportSize(viewport)
  // a chart is drawn anew in the frame after the one that measures its width
  await page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))))
  )
}

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
