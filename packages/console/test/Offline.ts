import { Reference } from "@card-rewards/domain/Ids"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser } from "playwright-core"
import { inTab, openWithKey } from "./Stage.ts"

/** Without a network a read and a write fail at once, and the write is not sent when the network returns. */
export const failsOffline = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/sandbox", "Sandbox")
    await page.getByLabel("Amount").first().fill("1")
    await page.getByLabel("Reference").fill("offline")
    await page.context().setOffline(true)
    await page.getByRole("button", { name: "Deposit 1.00 USDC" }).click()
    const failure = page.getByRole("alert").getByText("The service cannot be reached")
    await failure.waitFor()
    await page.evaluate(() => {
      location.hash = "/programs/everyday"
    })
    await page.getByRole("heading", { name: "everyday", level: 1 }).waitFor()
    await failure.waitFor()
    await page.context().setOffline(false)
    await page.getByRole("heading", { name: "Version 1" }).waitFor()
    const payload = { reference: Reference.make("offline"), amount: { asset: "USDC" as const, amount: 1_000_000n } }
    const { duplicate } = await Effect.runPromise(stage.api.sandbox.deposit({ payload }))
    assert.isFalse(duplicate, "the deposit that failed was sent later")
  })
