import { IntegratorId, TransactionId, UserId } from "@card-rewards/domain/Ids"
import { Currency } from "@card-rewards/domain/Money"
import type { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser } from "playwright-core"
import { findings, inTab, open, openWithKey, type Stage } from "./Stage.ts"

/** An id is enough to come to a purchase: of the transaction, the event or the reward. */
export const findsPurchase = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/users", "Users")
    const search = async (user: string, transaction: string, heading: string) => {
      await open(page, "/users", "Users")
      await page.getByLabel("User id, or").fill(user)
      await page.getByLabel("Transaction id, if any").fill(transaction)
      await page.keyboard.press("Enter")
      await page.getByRole("heading", { name: heading, level: 1 }).waitFor()
    }
    const { integratorId } = stage
    await search(`rw:${integratorId}:anna:clearing:laptop:everyday`, "", "laptop")
    await search("anna", "laptop", "laptop")
    await page.getByRole("button", { name: /^everyday v1/ }).click()
    const calculation = page.getByRole("table", { name: "How it came about" })
    await calculation.getByRole("row", { name: /Refund laptop-return/ }).waitFor()
    assert.deepStrictEqual(await findings(page), [])

    await search(`se:${integratorId}:anna:refund:laptop-return`, "", "laptop-return")
    await page.getByRole("link", { name: "laptop", exact: true }).click()
    await page.getByRole("heading", { name: "laptop", level: 1 }).waitFor()
    await search("bela", "early-refund", "early-refund")
    await page.getByText("Set aside").waitFor()
    await buyExcluded(stage)
    await search("anna", "cash", "cash")
    await page.getByText("nothing: the program excludes the merchant’s category code").waitFor()
    await open(page, "/users", "Users")
    await page.getByLabel("User id, or").fill(`se:${integratorId}:anna:clearing:cash:clearing:1`)
    await page.keyboard.press("Enter")
    await page.getByRole("link", { name: "User anna:clearing:cash, transaction 1" }).waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await search("anna", "never", "never")
    await page.getByText("No spend event has this id").waitFor()

    await page.getByRole("link", { name: "Find another one" }).click()
    await page.getByRole("heading", { name: "anna", level: 1 }).waitFor()
    await page.getByLabel("Amount").fill("100")
    await page.getByRole("button", { name: "Quote", exact: true }).click()
    const quote = page.getByRole("region", { name: "Quote of everyday" })
    await quote.getByRole("row", { name: /^Purchase .* 100\.00 USD/ }).waitFor()
    // what is earned now may be something else than before
    const again = page.waitForRequest("**/quotes")
    await page.getByRole("button", { name: "Quote", exact: true }).click()
    await again
    await quote.waitFor()
    assert.deepStrictEqual(await findings(page), [])
  })

/** A clearing that earns nothing, because the program excludes its category code. */
const buyExcluded = async ({ api, integratorId }: typeof Stage.Service): Promise<void> => {
  const { now } = await Effect.runPromise(api.sandbox.clock())
  const payload: SpendEvent = {
    kind: "clearing",
    integratorId: IntegratorId.make(integratorId),
    userId: UserId.make("anna"),
    externalTransactionId: TransactionId.make("cash"),
    amount: { currency: Currency.make("USD"), amount: 10_000n },
    merchant: { descriptor: "Cash machine", mcc: "6011" },
    occurredAt: now
  }
  await Effect.runPromise(api.spendEvents.submit({ payload }))
}
