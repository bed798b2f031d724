import { Reference } from "@card-rewards/domain/Ids"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser } from "playwright-core"
import { keptEvents, readLatest } from "../src/events/Latest.ts"
import { inTab, open, signIn, type Stage } from "./Stage.ts"

/** Longer than the page waits until it reads on. */
const pollMillis = 5_000

/** However long the log is; what happens is shown without a reload, and no event is read twice. */
export const followsEvents = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const read: Array<string> = []
    page.on("response", async (response) => {
      const { pathname, searchParams } = new URL(response.url())
      // those of a rare kind tell where the log ends
      if (!pathname.endsWith("/v1/events") || searchParams.has("kind")) return
      const { events } = await response.json()
      for (const { id } of events) read.push(id)
    })
    await page.clock.install()
    await signIn(page, stage)
    await page.getByRole("region", { name: "Movements" }).waitFor()
    assert.isAtMost(read.length, keptEvents)
    await open(page, "/users", "Users")
    await page.getByRole("link", { name: /^anna/ }).waitFor()
    const reference = Reference.make("live")
    await Effect.runPromise(
      stage.api.sandbox.deposit({ payload: { reference, amount: { asset: "EURe", amount: 5n } } })
    )
    await open(page, "/", "Vault")
    await page.clock.fastForward(pollMillis)
    await page.getByRole("group", { name: "Asset" }).getByRole("button", { name: "EURe" }).click()
    await page.getByRole("row", { name: /Deposit live/ }).waitFor()
    assert.strictEqual(new Set(read).size, read.length, "an event was read twice")
    assert.isAtMost(read.length, keptEvents + 1)
    const latest = await Effect.runPromise(readLatest((query) => stage.api.events.list({ query })))
    assert.deepStrictEqual(latest.events.map(({ id }) => id), (await wholeLog(stage)).slice(-keptEvents))
  })

/** The ids of all events, oldest first. */
const wholeLog = async ({ api }: typeof Stage.Service): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  for (let after = 0n; ; ) {
    const { events, next } = await Effect.runPromise(api.events.list({ query: { after, limit: 100 } }))
    if (events.length === 0) return ids
    ids.push(...events.map(({ id }) => id))
    after = next
  }
}
