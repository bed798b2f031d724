import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser, Locator, Page, Route } from "playwright-core"
import { printDay } from "../src/format/Time.ts"
import { findings, inTab, openWithKey } from "./Stage.ts"

/** A refused version shows each problem at its field; the corrected one is published. */
export const problemsBesideFields = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/programs/new", "New program")
    await page.getByLabel("Program id").fill("from-the-form")
    await page.getByLabel("Base rate", { exact: true }).fill("150")
    await page.getByLabel("Holding period").fill("400")
    await page.getByLabel("Countries").fill("DE ZZ")
    await page.getByLabel("Effective from (UTC)").fill("2030-01-01T00:00:00")
    await page.getByRole("button", { name: "Publish version 1" }).click()
    await page.getByRole("alert").getByText("4 problems keep this version").waitFor()
    await page.waitForFunction(() => document.activeElement?.classList.contains("summary-anchor"))
    for (const [label, problem] of [
      ["Base rate", "must be from 0 to 10000"],
      ["Holding period", "must be from 0 to 365"],
      ["Countries", "ZZ: is no"],
      ["Effective from (UTC)", "at least 5 minutes"]
    ] as const) {
      const field = page.getByLabel(label, { exact: true })
      assert.strictEqual(await field.getAttribute("aria-invalid"), "true", label)
      assert.include(await descriptionOf(field), problem, label)
    }
    assert.deepStrictEqual(await findings(page), [])
    await page.getByRole("alert").getByRole("button", { name: "Base rate" }).click()
    await problemsOfRows(page)
    await page.keyboard.type("1.5")
    await page.getByLabel("Base rate", { exact: true }).fill("1.5")
    await page.getByLabel("Holding period").fill("14")
    await page.getByLabel("Countries").fill("DE")
    await page.getByLabel("Effective from (UTC)").fill("2031-01-01T00:00:00")
    await page.getByRole("button", { name: "Publish version 1" }).click()
    await page.getByRole("heading", { name: "from-the-form", level: 1 }).waitFor()
    await page.getByText("1.5 %").waitFor()
    const { programs } = await Effect.runPromise(stage.api.programs.list())
    assert.isTrue(programs.some(({ programId }) => programId === "from-the-form"))
  })

/** A row that is removed takes its problems along; they do not move on to the row after it. */
const problemsOfRows = async (page: Page) => {
  await page.getByRole("button", { name: "Add a tier" }).click()
  await page.getByRole("button", { name: "Add a tier" }).click()
  const multiplier = (tier: number) =>
    page.getByRole("group", { name: `tier ${tier}` }).getByRole("textbox", { name: "Multiplier" })
  await multiplier(1).fill("much")
  await page.getByRole("button", { name: "Publish version 1" }).click()
  await page.getByRole("alert").getByText("Tier 1, Multiplier").waitFor()
  await page.getByRole("button", { name: "Remove tier 1" }).click()
  assert.notStrictEqual(await multiplier(1).getAttribute("aria-invalid"), "true")
  await page.getByRole("button", { name: "Remove tier 1" }).click()
}

/** The texts that a screen reader reads with a field. */
const descriptionOf = (field: Locator): Promise<string> =>
  field.evaluate((element) =>
    (element.getAttribute("aria-describedby") ?? "")
      .split(" ")
      .map((id) => document.getElementById(id)?.textContent ?? "")
      .join(" ")
  )

/** The progress of a simulation, and its outcome by month, category and tier. */
export const simulatesDraft = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/programs/everyday/new", "New version of everyday")
    await page.locator("#baseRate").fill("2")
    const simulation = Promise.withResolvers<Route>()
    await page.route("**/simulations", simulation.resolve)
    await page.getByRole("button", { name: "Simulate" }).click()
    await page.getByRole("status").getByText("Past purchases are evaluated anew").waitFor()
    await page.getByText(/^[1-9]\d* s so far/).waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await (await simulation.promise).continue()
    const outcome = page.locator(".outcome")
    await outcome.getByText("Would pay").first().waitFor()
    for (const caption of ["By month, in USDC", "By category, in USDC", "By tier, in USDC"])
      await outcome.getByRole("table", { name: caption }).waitFor()
    await outcome.getByRole("row", { name: /groceries/ }).waitFor()
    assert.deepStrictEqual(await findings(page), [])
    const from = await page.getByLabel("Purchases from").inputValue()
    await outcome.getByText(`Purchases from ${printDay(Date.parse(from))}`).waitFor()
    const outdated = outcome.getByText("of an earlier draft or of other dates")
    assert.strictEqual(await outdated.count(), 0)
    for (const [field, other, same] of [
      [page.locator("#baseRate"), "3", "2"],
      [page.getByLabel("Purchases from"), "2030-03-01", from]
    ] as const) {
      await field.fill(other)
      await outdated.waitFor()
      assert.deepStrictEqual(await findings(page), [])
      await field.fill(same)
      await outdated.waitFor({ state: "detached" })
    }
  })
