import { EndpointId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser, Page } from "playwright-core"
import { type Appearance, findings, inTab, open, openWithKey, type Stage } from "./Stage.ts"

/** Some kinds of events are chosen and sent again, by keyboard; the page shows the replay until and after its end. */
export const startsReplay = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/webhooks", "Webhooks")
    await page.getByRole("button", { name: "Choose events" }).focus()
    await page.keyboard.press("Enter")
    assert.deepStrictEqual(await findings(page), [])
    const { events } = await Effect.runPromise(stage.api.events.list({ query: { kind: "vault.claim_confirmed" } }))
    assert.isNotEmpty(events)
    const { received } = stage.receiver
    const before = received.length
    await page.getByLabel("Created from (UTC)").fill("2030-01-01T00:00")
    await page.getByLabel("Until before (UTC)").fill("2029-01-01T00:00")
    await page.getByText("A time after the first one").waitFor()
    assert.isTrue(await page.getByRole("button", { name: "Start the replay" }).isDisabled())
    await page.getByLabel("Until before (UTC)").fill("")
    await page.getByRole("checkbox", { name: "Claim", exact: true }).focus()
    await page.keyboard.press("Space")
    await page.getByRole("button", { name: "Start the replay" }).focus()
    await page.keyboard.press("Enter")
    await page.getByRole("status").getByText("each was delivered").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    const again = received.slice(before).map(({ headers }) => headers["x-service-event-id"])
    assert.sameMembers(
      [...new Set(again)],
      events.map(({ id }) => id)
    )
    await page.reload()
    await open(page, "/webhooks", "Webhooks")
    await page.getByRole("status").getByText("each was delivered").waitFor()
    // the service counts the events of some kinds up to a limit
    await page.route("**/replays/*", async (route) => {
      const response = await route.fetch()
      const { replay } = await response.json()
      await route.fulfill({ response, json: { replay: { ...replay, events: 100_000 } } })
    })
    await page.reload()
    await page.getByRole("status").getByText("100,000 or more events").waitFor()
  })

/** A replay that somebody else has started is explained and shown, until another one can be started. */
export const meetsReplay = (browser: Browser, appearance: Appearance) =>
  inTab(browser, appearance, async ({ page }, stage) => {
    await openWithKey(page, stage, "/webhooks", "Webhooks")
    const held: Array<() => void> = []
    stage.receiver.hold((respond) => held.push(respond))
    const replayId = await startElsewhere(stage)
    await page.getByRole("button", { name: "Choose events" }).click()
    await page.getByRole("button", { name: "Start the replay" }).click()
    const alert = page.getByRole("alert").filter({ hasText: "A replay is still running" })
    await alert.waitFor()
    await page.getByText(replayId, { exact: true }).waitFor()
    await page.getByRole("status").getByText("to be delivered again").waitFor()
    assert.isTrue(await page.getByRole("button", { name: "Start the replay" }).isDisabled())
    assert.deepStrictEqual(await findings(page), [])
    assert.isAtMost(await beyondWindow(page), 0)
    stage.receiver.hold(undefined)
    for (const respond of held) respond()
    await page.getByRole("status").getByText("each was delivered").waitFor()
    await alert.waitFor({ state: "detached" })
    assert.isTrue(await page.getByRole("button", { name: "Start the replay" }).isEnabled())
  })

const startElsewhere = async ({ api }: typeof Stage.Service): Promise<string> => {
  const { endpoints } = await Effect.runPromise(api.webhookEndpoints.list())
  const params = { id: endpoints[0]?.id ?? EndpointId.make("main") }
  const { replay } = await Effect.runPromise(
    api.webhookEndpoints.startReplay({ params, payload: { from: instant(0) } })
  )
  return replay.id
}

const beyondWindow = (page: Page): Promise<number> =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
