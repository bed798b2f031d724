import { ProgramId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser } from "playwright-core"
import { findings, inTab, open, openWithKey, type Stage } from "./Stage.ts"

/** Half an hour before midnight in UTC, which is the next day in Berlin. */
const effectiveFrom = instant(Date.parse("2040-01-14T23:30:00Z"))

/** What a definition means, and its days in the chosen time zone. */
export const showsDefinition = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await publish(stage)
    await openWithKey(page, stage, "/programs/euro-travel", "euro-travel")
    const version = page.locator("section.panel").filter({ hasText: "to come" }).first()
    await version.getByText("on no category from").waitFor()
    const facts = version.locator(".facts-list")
    await facts.getByText("Cap per month and user").waitFor()
    await facts.getByText("40.00 EURe").waitFor()
    const line = page.locator(".version-span").last()
    await line.getByText("14 Jan 2040").waitFor()
    await page.getByRole("button", { name: "Local time" }).click()
    await line.getByText("15 Jan 2040").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await open(page, "/programs/new", "New program")
    assert.notInclude(await page.locator(".lead").textContent(), "Simulate", "it has no purchases yet")
  })

const publish = async ({ api }: typeof Stage.Service): Promise<void> => {
  const params = { programId: ProgramId.make("euro-travel") }
  const { program } = await Effect.runPromise(api.programs.get({ params }))
  const latest = program.versions.at(-1)
  assert.isDefined(latest)
  const campaign = { id: "none", startsAt: effectiveFrom, endsAt: instant(effectiveFrom + 1), bonusRate: 5 }
  const payload = { ...latest.definition, effectiveFrom, campaigns: [{ ...campaign, categoryIds: [] }] }
  await Effect.runPromise(api.programs.publish({ params: { ...params, version: latest.version + 1 }, payload }))
}
