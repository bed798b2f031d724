import { assert } from "@effect/vitest"
import type { Browser, Page } from "playwright-core"
import { inTab, type Stage } from "./Stage.ts"

/** Signing in, reading a chart, skipping to the page, and a dialog that returns the focus. */
export const keyboardAlone = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await signInByKeyboard(page, stage)
    await readChart(page)
    await skipToPage(page)
    await closeDialog(page)
  })

const signInByKeyboard = async (page: Page, { apiKey, baseUrl }: typeof Stage.Service) => {
  await page.goto(`${baseUrl}/console`)
  await page.getByLabel("API key").waitFor()
  await page.keyboard.press("Tab")
  await page.keyboard.type(apiKey)
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor()
}

const readChart = async (page: Page) => {
  const slider = page.getByRole("slider")
  await slider.waitFor()
  await tabUntil(page, "the chart", async () => (await focused(page)).role === "slider")
  const latest = await slider.getAttribute("aria-valuetext")
  await page.keyboard.press("Home")
  const first = await slider.getAttribute("aria-valuetext")
  assert.match(first ?? "", /^\d+ \w+ 2030, .*Held .* USDC, Free .* USDC/)
  assert.notStrictEqual(first, latest)
  await tabTo(page, "Show as table")
  await page.keyboard.press("Enter")
  await page.getByRole("table", { name: "Vault in USDC over time" }).waitFor()
}

/** By the link before all others, and by opening another page. */
const skipToPage = async (page: Page) => {
  await page.getByRole("link", { name: "Vault", exact: true }).focus()
  await page.keyboard.press("Shift+Tab")
  await page.keyboard.press("Shift+Tab")
  assert.strictEqual((await focused(page)).text, "Skip to the page")
  await page.keyboard.press("Enter")
  assert.strictEqual((await focused(page)).id, "main")
  await page.getByRole("link", { name: "API keys" }).focus()
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { name: "API keys", level: 1 }).waitFor()
  assert.strictEqual((await focused(page)).id, "main")
}

const closeDialog = async (page: Page) => {
  await page.getByRole("button", { name: "Revoke" }).first().waitFor()
  await tabTo(page, "Revoke")
  await page.keyboard.press("Enter")
  await page.getByRole("alertdialog").waitFor()
  await page.keyboard.press("Escape")
  await page.getByRole("alertdialog").waitFor({ state: "detached" })
  assert.strictEqual((await focused(page)).text, "Revoke")
}

const focused = (page: Page) =>
  page.evaluate(() => {
    const element = document.activeElement
    return { id: element?.id, role: element?.getAttribute("role"), text: element?.textContent?.trim() ?? "" }
  })

const tabTo = (page: Page, text: string) =>
  tabUntil(page, text, async () => (await focused(page)).text.startsWith(text))

const tabUntil = async (page: Page, what: string, isReached: () => Promise<boolean>): Promise<void> => {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press("Tab")
    if (await isReached()) return
  }
  throw new Error(`Tab does not come to ${what}`)
}
