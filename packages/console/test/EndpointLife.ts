import { verifyWebhook } from "@card-rewards/client/promise"
import { assert } from "@effect/vitest"
import type { Browser, Page } from "playwright-core"
import { findings, inTab, loseAnswer, open, openWithKey, type Stage } from "./Stage.ts"

const secretForm = /^service_whsec_[0-9a-f]{64}$/

/** The endpoint from its deletion to another one's, by keyboard where the focus could get lost. Leaves none. */
export const endpointLife = (browser: Browser) =>
  inTab(browser, "light", async ({ page }, stage) => {
    await openWithKey(page, stage, "/webhooks", "Webhooks")
    const { answer, url } = stage.receiver
    answer(200)

    await remove(page)
    assert.deepStrictEqual(await findings(page), [])
    assert.strictEqual(await focusedLabel(page), "Id")
    await page.getByLabel("Id", { exact: true }).fill("hooks")
    await page.getByLabel("URL").fill("https://user:word@hooks.example.com")
    await page.keyboard.press("Enter")
    await page.getByRole("alert").getByText("This URL is refused").waitFor()
    await page.getByLabel("URL").fill(url)
    await page.keyboard.press("Enter")
    const first = await shownSecret(page)
    assert.deepStrictEqual(await findings(page), [])
    await page.getByText("Nothing was sent yet").waitFor()

    await verifyWebhook(await pinged(page, stage, "/hooks", [first]))

    await losePing(page)
    await fallsBehind(page, stage)

    await page.getByLabel("URL").fill(`${url}/v2`)
    await page.keyboard.press("Enter")
    await page.getByText("URL changed").waitFor()
    assert.strictEqual(await focusedLabel(page), "URL")
    const moved = await pinged(page, stage, "/hooks/v2", [first])
    assert.strictEqual((await verifyWebhook(moved)).kind, "webhook.ping")

    await page.getByRole("button", { name: "Rotate secret" }).focus()
    await page.keyboard.press("Enter")
    await page.getByRole("alertdialog").getByText("keeps signing for 24 hours").waitFor()
    assert.deepStrictEqual(await findings(page), [])
    await page.getByRole("alertdialog").getByRole("button", { name: "Rotate" }).focus()
    await page.keyboard.press("Enter")
    await page.getByText("Every delivery is signed with the secret before it too").waitFor()
    const second = await shownSecret(page)
    assert.notStrictEqual(second, first)
    await page.getByText("The replaced secret signs until").waitFor()
    for (const secret of [first, second]) await verifyWebhook(await pinged(page, stage, "/hooks/v2", [secret]))

    await failToRemove(page)
    assert.strictEqual(await page.getByRole("group", { name: "Signing secret" }).locator("code").textContent(), second)

    await open(page, "/keys", "API keys")
    await open(page, "/webhooks", "Webhooks")
    await page.getByText("Up to date with the event log").waitFor()
    assert.strictEqual(await page.getByRole("group", { name: "Signing secret" }).count(), 0, "a secret is shown once")
    assert.notInclude(await page.content(), second)
    await remove(page)
    await loseSecret(page, url)
  })

/** The page shows how many events the endpoint is behind. */
const fallsBehind = async (page: Page, { receiver }: typeof Stage.Service): Promise<void> => {
  await page.getByText("Up to date with the event log").waitFor()
  const answers: Array<() => void> = []
  receiver.hold((respond) => answers.push(respond))
  await page.getByRole("button", { name: "Send a ping" }).click()
  await untilSome(() => answers[0])
  // the page is read anew every 4 s
  await page.getByText("1 event behind the event log").waitFor()
  assert.deepStrictEqual(await findings(page), [])
  receiver.hold(undefined)
  for (const respond of answers) respond()
}

/** A ping that may have been sent must not be repeated unseen. */
const losePing = async (page: Page): Promise<void> => {
  await page.route("**/ping", (route) => route.abort())
  await page.getByRole("button", { name: "Send a ping" }).click()
  const failure = page.getByRole("alert").filter({ hasText: "The service cannot be reached" })
  await failure.getByText("It may have been done").waitFor()
  await page.unroute("**/ping")
}

/** An endpoint whose secret got lost on the way needs another one. */
const loseSecret = async (page: Page, url: string): Promise<void> => {
  await loseAnswer(page, "**/v1/webhook-endpoints")
  await page.getByLabel("URL").fill(url)
  await page.keyboard.press("Enter")
  await page.getByText("If its secret never appeared here, rotate it").waitFor()
  await remove(page)
}

const remove = async (page: Page): Promise<void> => {
  await page.getByRole("button", { name: "Delete", exact: true }).focus()
  await page.keyboard.press("Enter")
  await page.getByRole("alertdialog").getByText("those that wait are cancelled").waitFor()
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete" }).focus()
  await page.keyboard.press("Enter")
  await page.getByRole("heading", { name: "No endpoint yet" }).waitFor()
  await page.getByRole("alertdialog").waitFor({ state: "detached" })
}

/** Confirms the deletion, which the service refuses. */
const failToRemove = async (page: Page): Promise<void> => {
  const json = { _tag: "InvalidRequest", part: "path", message: "not now" }
  const endpoints = "**/v1/webhook-endpoints/*"
  const requested = Promise.withResolvers<() => void>()
  await page.route(endpoints, (route) =>
    route.request().method() === "DELETE"
      ? requested.resolve(() => void route.fulfill({ status: 400, json }))
      : route.continue())
  await page.getByRole("button", { name: "Delete", exact: true }).click()
  const dialog = page.getByRole("alertdialog")
  await dialog.getByRole("button", { name: "Delete" }).click()
  // until the answer the dialog stays, since closing it would cancel nothing and hide the error
  const refuse = await requested.promise
  assert.isTrue(await dialog.getByRole("button", { name: "Cancel" }).isDisabled())
  await page.keyboard.press("Escape")
  assert.isTrue(await dialog.isVisible())
  refuse()
  await dialog.getByRole("alert").waitFor()
  await dialog.getByRole("button", { name: "Cancel" }).click()
  await dialog.waitFor({ state: "detached" })
  await page.unroute(endpoints)
}

/** The secret on the page; it has the focus, so that a screen reader reads it aloud. */
const shownSecret = async (page: Page): Promise<string> => {
  const group = page.getByRole("group", { name: "Signing secret" })
  const secret = (await group.locator("code").textContent()) ?? ""
  assert.match(secret, secretForm)
  await page.waitForFunction(() => document.activeElement?.classList.contains("secret"))
  return secret
}

/** What a ping brought to the receiver, for {@link verifyWebhook}. */
const pinged = async (page: Page, stage: typeof Stage.Service, path: string, secrets: ReadonlyArray<string>) => {
  const { received } = stage.receiver
  const before = received.length
  await page.getByRole("button", { name: "Send a ping" }).click()
  const delivery = await untilSome(() => received.slice(before).find((one) => one.path === path))
  return { body: delivery.body, headers: delivery.headers, secrets }
}

const untilSome = async <A>(find: () => A | undefined): Promise<A> => {
  for (const endsAt = performance.now() + 20_000; performance.now() < endsAt; ) {
    const found = find()
    if (found !== undefined) return found
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error("no delivery came")
}

const focusedLabel = (page: Page): Promise<string> =>
  page.evaluate(() => (document.activeElement as HTMLInputElement | null)?.labels?.[0]?.textContent ?? "")
