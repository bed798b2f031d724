import { ProgramId } from "@card-rewards/domain/Ids"
import { dayMillis, instant, printTimestamp } from "@card-rewards/domain/Time"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { Browser, Locator, Page, Route } from "playwright-core"
import { printDay } from "../src/format/Time.ts"
import { findings, inTab, open, openWithKey } from "./Stage.ts"

/** Longer than any page waits until it reads again. */
const turnMillis = 10_000

/** A secret, an open row and a half-typed form outlast a read that fails. */
export const outageKeepsContent = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await page.clock.install()
    await openWithKey(page, stage, "/keys", "API keys")
    await page.getByLabel("Name of the next key").fill("kept")
    await outage(page, "**/v1/api-keys", page.getByRole("group", { name: "Key kept" }), () =>
      page.getByRole("button", { name: "Create the key" }).click()
    )

    await open(page, "/users/anna", "anna")
    await page.locator(".reward-row").first().click()
    const calculation = page.getByRole("table", { name: "How it came about" })
    await calculation.waitFor()
    await outage(page, "**/v1/users/anna", calculation)

    await open(page, "/programs/everyday", "everyday")
    await outage(page, "**/v1/programs/everyday", page.getByRole("heading", { name: "Version 1" }))

    await open(page, "/programs/everyday/new", "New version of everyday")
    await page.locator("#baseRate").fill("7.5")
    await outage(page, "**/v1/programs/everyday", page.locator("#baseRate[value='7.5']"))
  })

/** What others publish moves the number on, and leaves what was typed. A lost answer is asked for again. */
export const followsVersions = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    const params = { programId: ProgramId.make("everyday") }
    const { program } = await Effect.runPromise(stage.api.programs.get({ params }))
    const latest = program.versions.at(-1)
    assert.isDefined(latest)
    const { definition, version } = latest
    const publish = (ahead: number) =>
      Effect.runPromise(
        stage.api.programs.publish({
          params: { ...params, version: version + ahead },
          payload: { ...definition, effectiveFrom: instant(definition.effectiveFrom + ahead * 400 * dayMillis) }
        })
      )
    const readAgain = async () => {
      const answer = page.waitForResponse("**/v1/programs/everyday")
      await page.clock.fastForward(turnMillis)
      await (await answer).finished()
    }
    const button = (ahead: number) => page.getByRole("button", { name: `Publish version ${version + ahead}` })
    await page.clock.install()
    await openWithKey(page, stage, "/programs/everyday/new", "New version of everyday")
    await button(1).waitFor()
    await publish(1)
    await page.clock.fastForward(turnMillis)
    await button(2).waitFor()

    await page.locator("#version").fill(`${version + 9}`)
    const notice = page.getByRole("alert").filter({ hasText: "was published since" })
    assert.strictEqual(await notice.count(), 0, "an untouched form has the newest contents")
    await publish(2)
    await readAgain()
    await button(9).waitFor()
    await notice.getByText(`Version ${version + 2} was published since`).waitFor()
    await notice.getByText(`based on version ${version + 1}`).waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await page.getByRole("button", { name: `Start anew from version ${version + 2}` }).click()
    await button(3).waitFor()
    assert.strictEqual(await notice.count(), 0)

    await page.locator("#baseRate").fill("7.5")
    await publish(3)
    await page.clock.fastForward(turnMillis)
    await button(4).waitFor()
    assert.strictEqual(await page.locator("#baseRate").inputValue(), "7.5")
    await notice.getByText(`based on version ${version + 2}`).waitFor()

    const lost = async (route: Route) => {
      await route.fetch()
      await route.fulfill({ status: 500, body: "" })
    }
    await page.route(`**/versions/${version + 4}`, lost, { times: 1 })
    await button(4).click()
    await page.getByRole("alert").getByText("The service answered 500").waitFor()
    await readAgain()
    await notice.waitFor({ state: "detached" })
    await button(4).click()
    await page.getByText("Published before").waitFor()
  })

/** The page shows a moved clock as soon as the move is answered, also one by another client. */
export const followsClock = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await page.clock.install()
    await openWithKey(page, stage, "/sandbox", "Sandbox")
    const { now } = await Effect.runPromise(stage.api.sandbox.clock())
    const shown = (days: number) =>
      page.locator(".clock-face").getByText(printDay(now + days * dayMillis)).waitFor()
    await shown(0)
    await Effect.runPromise(stage.api.sandbox.moveClock({ payload: { now: instant(now + 2 * dayMillis) } }))
    await page.clock.fastForward(turnMillis)
    await shown(2)
    // what is read again after a move takes its time
    await page.route("**/v1/sandbox/clock", (route) =>
      route.request().method() === "GET" ? undefined : route.continue()
    )
    await page.getByRole("button", { name: "+ 1 day" }).click()
    await shown(3)
    assert.strictEqual(await page.getByText("The clock was moved").count(), 0, "everything was read again before")
  })

/** A jump whose answers are all lost moves the clock once, however often its button is pressed. */
export const repeatsJump = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/sandbox", "Sandbox")
    const { now } = await Effect.runPromise(stage.api.sandbox.clock())
    const jump = page.getByRole("button", { name: "+ 1 hour" })
    await page.route("**/v1/sandbox/clock", async (route) => {
      if (route.request().method() === "GET") return route.continue()
      await route.fetch()
      return route.abort()
    })
    await jump.click()
    await page.getByRole("alert").getByText("The service cannot be reached").waitFor()
    // the page reads that the clock was moved
    await page.locator(".clock-time").getByText(printTimestamp(now + 3_600_000).slice(11, 14)).waitFor()
    await page.unroute("**/v1/sandbox/clock")
    await jump.click()
    await page.getByText("The clock was moved").waitFor()
    const after = await Effect.runPromise(stage.api.sandbox.clock())
    assert.isBelow(after.now - now, 2 * 3_600_000)
  })

/** Makes an address answer 503, checks that the error is shown above the kept content, and restores the address. */
const outage = async (
  page: Page,
  address: string,
  kept: Locator,
  read = () => page.clock.fastForward(turnMillis)
): Promise<void> => {
  await page.route(address, (route) =>
    route.request().method() === "GET" ? route.fulfill(unavailable) : route.continue()
  )
  const alert = page.getByRole("alert").filter({ hasText: "unavailable for a moment" })
  await read()
  await alert.waitFor()
  await kept.waitFor()
  await page.unroute(address)
  await page.clock.fastForward(turnMillis)
  await alert.waitFor({ state: "detached" })
  assert.isTrue(await kept.isVisible(), `${address}: was lost`)
}

/** With a longer retry time than the page has. */
const unavailable = {
  status: 503,
  headers: { "retry-after": "60" },
  contentType: "application/json",
  body: JSON.stringify({ _tag: "Unavailable", message: "" })
}
