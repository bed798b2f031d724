import { Effect } from "effect"
import type { Browser, Page } from "playwright-core"
import { resolve } from "node:path"
import { inTab, type Appearance, open, signIn } from "./Stage.ts"

const folder = resolve(import.meta.dirname, "../../../docs/images")

/** What is done on a page before its picture is taken. */
interface Picture {
  readonly name: string
  readonly appearance: Appearance
  readonly path: string
  readonly heading: string
  readonly prepare?: (page: Page) => Promise<void>
}

const pictures_: ReadonlyArray<Picture> = [
  { name: "console-vault", appearance: "light", path: "/", heading: "Vault" },
  { name: "console-rewards-dark", appearance: "dark", path: "/rewards", heading: "Rewards" },
  {
    name: "console-user",
    appearance: "light",
    path: "/users/anna",
    heading: "anna",
    prepare: async (page) => {
      await page.getByRole("button", { name: /txn-/ }).first().click()
      await page.getByRole("table", { name: "How it came about" }).waitFor()
    }
  },
  {
    name: "console-simulation-dark",
    appearance: "dark",
    path: "/programs/everyday/new",
    heading: "New version of everyday",
    prepare: async (page) => {
      await page.locator("#baseRate").fill("1.75")
      await page.getByRole("button", { name: "Simulate" }).click()
      await page.getByRole("table", { name: "By tier, in USDC" }).waitFor()
      await page
        .getByRole("heading", { name: "Simulation" })
        .evaluate((element) => scrollTo(0, element.getBoundingClientRect().top + scrollY - 330))
    }
  },
  {
    name: "console-webhooks",
    appearance: "light",
    path: "/webhooks",
    heading: "Webhooks",
    prepare: (page) => page.locator(".delivery-row").filter({ hasText: "2 ×" }).first().click()
  },
  { name: "console-phone", appearance: "phone", path: "/", heading: "Vault" },
  { name: "console-phone-user", appearance: "phone", path: "/users/anna", heading: "anna" }
]

/** Takes the pictures that the README shows. */
export const pictures = (browser: Browser) =>
  Effect.forEach(
    pictures_,
    ({ heading, appearance, name, path, prepare }) =>
      inTab(
        browser,
        appearance,
        async ({ page }, stage) => {
          await signIn(page, stage)
          await open(page, path, heading)
          await prepare?.(page)
          await page.mouse.move(0, 0)
          await page.evaluate(() => document.fonts.ready)
          await page.waitForTimeout(500)
          await page.screenshot({ path: `${folder}/${name}.png` })
        },
        { deviceScaleFactor: 1.5 }
      ),
    { discard: true }
  )
