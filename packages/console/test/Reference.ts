import { assert } from "@effect/vitest"
import type { Browser } from "playwright-core"
import { inTab } from "./Stage.ts"

interface Document {
  readonly paths: Readonly<Record<string, object>>
}

/** Every operation is on `/docs`; an address opens one, and its samples have this host's address and can be copied. */
export const showsReference = (browser: Browser) =>
  inTab(
    browser,
    "light",
    async ({ page }, { baseUrl }) => {
      await page.goto(`${baseUrl}/docs#/users/users.put`)
      const samples = page.locator(".opblock.is-open .code-samples")
      const command = await samples.locator("pre code").first().textContent()
      assert.match(command ?? "", new RegExp(`^curl -X PUT "${baseUrl}/v1/users/user-1" `))
      const labels = await samples.locator("summary").allTextContents()
      assert.includeMembers(labels, ["curl: attributes", "TypeScript: attributes"])
      const copy = samples.getByRole("button", { name: "Copy", exact: true }).first()
      await copy.click()
      await samples.getByRole("button", { name: "Copied" }).waitFor()
      assert.strictEqual(await page.evaluate(() => navigator.clipboard.readText()), command)
      const { paths }: Document = await (await fetch(`${baseUrl}/openapi.json`)).json()
      const operations = Object.values(paths).flatMap((item) => Object.keys(item))
      const shown = page.locator('.opblock-tag-section:not(:has([data-tag="webhooks"])) .opblock')
      assert.strictEqual(await shown.count(), operations.length)
    },
    { permissions: ["clipboard-read", "clipboard-write"] }
  )
