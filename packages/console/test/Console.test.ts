import { UserId } from "@card-rewards/domain/Ids"
import { dayMillis } from "@card-rewards/domain/Time"
import { assert, describe, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Route } from "playwright-core"
import { printMoney } from "../src/format/Money.ts"
import { printTime } from "../src/format/Time.ts"
import { launch } from "./Browser.ts"
import { endpointLife } from "./EndpointLife.ts"
import { pictures } from "./Pictures.ts"
import { followsClock, followsVersions, outageKeepsContent } from "./Rereads.ts"
import { addresses, findings, inTab, type Appearance, appearances, open, signIn, Stage } from "./Stage.ts"
import { clear } from "./Story.ts"

/** Accessibility rules that an appearance can change; all rules apply to the first one. */
const ownRules: Record<Appearance, ReadonlyArray<string>> = {
  light: [],
  dark: ["color-contrast"],
  phone: ["color-contrast", "target-size", "scrollable-region-focusable", "landmark-unique"]
}

const { browser, reason } = await launch()
if (browser === undefined) process.stderr.write(`The console's tests are skipped, there is no browser: ${reason}\n`)

describe.skipIf(browser === undefined)("the console", () => {
  if (browser === undefined) return
  layer(Stage.layer, { excludeTestServices: true, timeout: "240 seconds" })((it) => {
    if (process.env["SCREENSHOTS"] !== undefined) it.effect("is pictured", () => pictures(browser), 120_000)

    it.effect("keeps the key in the tab: not in an address, not on disk, and gone when one signs out", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        const asked: Array<string> = []
        page.on("request", (request) => asked.push(request.url()))
        await signIn(page, stage)
        await page.reload()
        await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor()
        assert.isFalse(asked.some((url) => url.includes(stage.apiKey.slice(-20))))
        assert.isFalse(page.url().includes(stage.apiKey.slice(-20)))
        const kept = await page.evaluate(() => ({
          local: JSON.stringify({ ...localStorage }),
          cookies: document.cookie,
          session: JSON.stringify({ ...sessionStorage })
        }))
        assert.notInclude(kept.local + kept.cookies, stage.apiKey.slice(-20))
        assert.include(kept.session, stage.apiKey)
        await page.getByRole("button", { name: "Sign out" }).click()
        await page.getByLabel("API key").waitFor()
        assert.strictEqual(await page.evaluate(() => JSON.stringify({ ...sessionStorage })), "{}")
      })
    )

    it.effect("explains what to do about a key that is not accepted", () =>
      inTab(browser, "light", async ({ page }, { baseUrl }) => {
        await page.goto(`${baseUrl}/console`)
        await page.getByLabel("API key").fill(`service_sk_sandbox_${"0".repeat(64)}`)
        await page.getByRole("button", { name: "Open the console" }).click()
        await page.getByRole("alert").getByText("This key is not accepted").waitFor()
        await page.getByLabel("API key").fill("x")
        assert.isTrue(await page.getByRole("button", { name: "Open the console" }).isEnabled())
      })
    )

    for (const appearance of Object.keys(appearances) as ReadonlyArray<Appearance>) {
      it.effect(
        `has no page that axe finds fault with, or that is too wide: ${appearance}`,
        () =>
          inTab(browser, appearance, async ({ page }, stage) => {
            await page.goto(`${stage.baseUrl}/console`)
            await page.getByLabel("API key").waitFor()
            assert.deepStrictEqual(await findings(page), [])
            await signIn(page, stage)
            const found: Array<string> = []
            for (const [heading, path] of Object.entries(addresses)) {
              await open(page, path, heading)
              for (const finding of await findings(page, ...ownRules[appearance])) found.push(`${heading}: ${finding}`)
              const beyond = await page.evaluate(
                () => document.documentElement.scrollWidth - document.documentElement.clientWidth
              )
              if (beyond > 0) found.push(`${heading}: ${beyond} px too wide`)
            }
            assert.deepStrictEqual(found, [])
          }),
        240_000
      )
    }

    it.effect(
      "shows the vault to the last unit, and derives the same from the events where there is no sandbox",
      () =>
        inTab(browser, "light", async ({ page }, stage) => {
          const vault = await Effect.runPromise(stage.api.sandbox.vault())
          await signIn(page, stage)
          for (const { asset, free, held } of vault.balances) {
            await page.getByRole("group", { name: "Asset" }).getByRole("button", { name: asset }).click()
            const stats = page.locator(".stats").first()
            await stats.getByText(printMoney(held, asset)).waitFor()
            await stats.getByText(printMoney(free, asset)).waitFor()
            await stats.getByText(printMoney(held - free, asset)).waitFor()
          }
          await page.route("**/v1/sandbox/**", (route) =>
            route.fulfill({
              status: 404,
              contentType: "application/json",
              body: JSON.stringify({ _tag: "RouteNotFound", message: "" })
            })
          )
          await page.reload()
          await page.getByText("production").waitFor()
          assert.strictEqual(await page.getByRole("link", { name: "Sandbox" }).count(), 0)
          for (const { asset, free, held } of vault.balances) {
            await page.getByRole("group", { name: "Asset" }).getByRole("button", { name: asset }).click()
            await page.locator(".stats").first().getByText(printMoney(held, asset)).waitFor()
            await page.locator(".stats").first().getByText(printMoney(free, asset)).waitFor()
          }
        })
    )

    it.effect("adds rewards up to what all users have", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        const totals = { pending: 0n, claimable: 0n, paid: 0n, owed: 0n }
        for (const user of ["anna", "bela", "chiara", "dimitri", "elif", "farid", "greta", "hugo"]) {
          const { balances } = await Effect.runPromise(
            stage.api.users.balance({ params: { userId: UserId.make(user) } })
          )
          for (const name of ["pending", "claimable", "paid", "owed"] as const)
            totals[name] += balances[0]?.[name] ?? 0n
        }
        assert.isAbove(Number(totals.owed), 0)
        await signIn(page, stage)
        await open(page, addresses["Rewards"] ?? "", "Rewards")
        for (const amount of Object.values(totals))
          await page.locator(".funnel").getByText(printMoney(amount, "USDC")).first().waitFor()
        await page.getByRole("columnheader", { name: "Waits for" }).waitFor()
        await page
          .getByRole("row", { name: /early-refund/ })
          .getByText("not-cleared-yet")
          .waitFor()
      })
    )

    it.effect("explains a reward, with what was paid and is owed back", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        const { balances } = await Effect.runPromise(
          stage.api.users.balance({ params: { userId: UserId.make("anna") } })
        )
        await signIn(page, stage)
        await page.getByRole("link", { name: "Users" }).click()
        await page.getByRole("searchbox").or(page.getByLabel("User id")).first().fill("anna")
        await page.getByRole("button", { name: "Open" }).click()
        await page.getByRole("heading", { name: "anna", level: 1 }).waitFor()
        await page
          .getByText(printMoney(balances[0]?.owed ?? 0n, "USDC").replace(" USDC", ""))
          .first()
          .waitFor()
        const laptop = page.getByRole("button", { name: /laptop/ })
        for (;;) {
          await page.locator(".reward-row").first().waitFor()
          if ((await laptop.count()) > 0) break
          await page.getByRole("button", { name: "Older" }).click()
        }
        await laptop.click()
        const calculation = page.getByRole("table", { name: "How it came about" })
        await calculation.getByRole("row", { name: /Purchase .* 649\.99 USD/ }).waitFor()
        await calculation.getByRole("row", { name: /Multiplier .*gold.* 1\.5×/ }).waitFor()
        await calculation.getByRole("row", { name: /Refund laptop-return of 200\.00 USD/ }).waitFor()
        await calculation.getByRole("row", { name: /Owed back/ }).waitFor()
        await page.getByRole("listitem").filter({ hasText: "had been paid and is owed" }).waitFor()
      })
    )

    it.effect("shows all problems of a version beside their fields, and publishes it once they are fixed", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        await signIn(page, stage)
        await open(page, "/programs/new", "New program")
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
          const described = await field.evaluate((element) =>
            (element.getAttribute("aria-describedby") ?? "")
              .split(" ")
              .map((id) => document.getElementById(id)?.textContent ?? "")
              .join(" ")
          )
          assert.include(described, problem, label)
        }
        assert.deepStrictEqual(await findings(page), [])
        await page.getByRole("alert").getByRole("button", { name: "Base rate" }).click()
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
    )

    it.effect("simulates a draft against the past", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        await signIn(page, stage)
        await open(page, "/programs/everyday/new", "New version of everyday")
        await page.locator("#baseRate").fill("2")
        const asked = Promise.withResolvers<Route>()
        await page.route("**/simulations", asked.resolve)
        await page.getByRole("button", { name: "Simulate" }).click()
        await page.getByRole("status").getByText("Past purchases are evaluated anew").waitFor()
        await page.getByText(/^[1-9]\d* s so far/).waitFor()
        assert.deepStrictEqual(await findings(page), [])
        await (await asked.promise).continue()
        const outcome = page.locator(".outcome")
        await outcome.getByText("Would pay").first().waitFor()
        for (const caption of ["By month, in USDC", "By category, in USDC", "By tier, in USDC"])
          await outcome.getByRole("table", { name: caption }).waitFor()
        await outcome.getByRole("row", { name: /groceries/ }).waitFor()
        assert.deepStrictEqual(await findings(page), [])
      })
    )

    it.effect("lists deliveries with their attempts, delivers again and pings", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        await signIn(page, stage)
        await open(page, "/webhooks", "Webhooks")
        await page.getByRole("button", { name: "Send a ping" }).click()
        const ping = page.getByRole("button", { name: /^Ping evt_/ })
        await ping.filter({ hasText: "delivered" }).waitFor()
        await ping.first().click()
        await page.getByRole("table", { name: "Attempts" }).getByRole("cell", { name: "200" }).waitFor()
        await page.getByRole("button", { name: "Deliver again" }).click()
        await page.waitForFunction(
          () =>
            [...document.querySelectorAll(".delivery-row")].filter(
              (row) => row.textContent?.includes("Ping") === true && row.textContent.includes("delivered")
            ).length === 2
        )
        await page.getByRole("button", { name: "Exhausted" }).click()
        await page.getByText("No delivery is exhausted").waitFor()
      })
    )

    it.effect("rotates a key step by step, and the tab goes over to the new one", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        await signIn(page, stage)
        await open(page, "/keys", "API keys")
        await page.getByLabel("Name of the next key").fill("spare")
        await page.getByRole("button", { name: "Create the key" }).click()
        const secret = await page.getByRole("group", { name: "Key spare" }).locator("code").textContent()
        assert.match(secret ?? "", /^service_sk_sandbox_[0-9a-f]{64}$/)
        await page.getByText("It has not been used yet").waitFor()
        assert.deepStrictEqual(await findings(page), [])
        await page.getByRole("button", { name: "Use it in this tab too" }).click()
        await page.getByRole("row", { name: /spare.*this tab/ }).waitFor()
        assert.strictEqual(await page.evaluate(() => sessionStorage.getItem("card-rewards.api-key")), secret)
        // the event log is followed on, not read again
        await open(page, "/", "Vault")
        const page100 = { query: { kind: "vault.claim_confirmed", limit: 100 } } as const
        const claims = await Effect.runPromise(stage.api.events.list(page100))
        const shown = page.getByRole("region", { name: "Movements" }).getByRole("row", { name: /Claim/ })
        assert.strictEqual(await shown.count(), claims.events.length)
        await open(page, "/keys", "API keys")
        // the rotated key is the service's own in these tests: the new one goes instead
        await page.getByRole("row", { name: /spare/ }).getByRole("button", { name: "Revoke" }).click()
        await page.getByRole("alertdialog").getByText("This tab uses it").waitFor()
        assert.deepStrictEqual(await findings(page), [])
        await page.getByRole("alertdialog").getByRole("button", { name: "Cancel" }).click()
        await page.getByRole("alertdialog").waitFor({ state: "detached" })
      })
    )

    it.effect("plays the sandbox: the clock, an enrollment, a purchase, a deposit and a claim", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        await signIn(page, stage)
        await open(page, "/sandbox", "Sandbox")
        const panel = (title: string) =>
          page
            .locator("section.panel")
            .filter({ has: page.getByRole("heading", { name: title, level: 2, exact: true }) })
        const enroll = panel("Enroll a user")
        await enroll.getByLabel("User id").fill("zoë/1 %")
        await enroll.getByLabel("Country").fill("Germany")
        await enroll.getByRole("button", { name: "Enroll" }).click()
        await enroll.getByRole("alert").getByText("two letters").waitFor()
        await enroll.getByLabel("Country").fill("de")
        await enroll.getByRole("button", { name: "Enroll" }).click()
        await enroll.getByRole("status").getByText("Enrolled").waitFor()
        const card = panel("Send a card event")
        await card.getByLabel("User id").fill("zoë/1 %")
        await card.getByLabel("Transaction id").fill("first")
        await card.getByLabel("Amount").fill("100.00")
        await card.getByRole("button", { name: "Send" }).click()
        await card.getByRole("status").getByText("Accepted").waitFor()
        await page.getByRole("button", { name: "+ 7 days" }).click()
        await page.getByText("The clock was moved").waitFor()
        const vault = panel("Vault")
        await vault.getByRole("button", { name: "Claim" }).first().click()
        await vault.getByLabel("User id").fill("zoë/1 %")
        await vault.getByText("Claimable: 3.00 USDC").waitFor()
        // what others send, and what the worker gets to later, is seen too
        const { now } = await Effect.runPromise(stage.api.sandbox.clock())
        const second = { user: "zoë/1 %", id: "second", amount: 30_000n, now: now - 8 * dayMillis }
        await Effect.runPromise(clear(stage.api, stage.integratorId, second))
        await vault.getByText("Claimable: 6.00 USDC").waitFor()
        await vault.getByRole("button", { name: "all of it" }).click()
        await vault.getByRole("button", { name: "Claim 6.00 USDC" }).click()
        await page.getByText("Claim recorded").waitFor()
        await vault.getByRole("button", { name: "Withdraw" }).click()
        await vault.getByLabel("Amount").fill("1000000")
        await vault.getByRole("button", { name: "Withdraw 1,000,000.00 USDC" }).click()
        await vault.getByRole("alert").getByText("The vault refuses this").waitFor()
        await card.getByRole("link", { name: "zoë/1 %" }).click()
        await page.getByRole("heading", { name: "zoë/1 %", level: 1 }).waitFor()
        await page.getByRole("button", { name: /first everyday v2 Paid/ }).waitFor()
      })
    )

    it.effect("keeps what it shows, and what is typed, where it cannot be read again", () =>
      outageKeepsContent(browser)
    )

    it.effect("shows the sandbox clock as others move it, and its own move at once", () => followsClock(browser))

    it.effect("proposes the number after the newest version, whichever client published it", () =>
      followsVersions(browser)
    )

    it.effect("can be used with the keyboard alone", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        const focused = () => page.evaluate(() => document.activeElement?.textContent ?? "")
        const tabTo = async (name: string) => {
          for (let presses = 0; presses < 60; presses++) {
            await page.keyboard.press("Tab")
            if ((await focused()).trim().startsWith(name)) return
          }
          throw new Error(`Tab does not come to ${name}`)
        }
        await page.goto(`${stage.baseUrl}/console`)
        await page.getByLabel("API key").waitFor()
        await page.keyboard.press("Tab")
        await page.keyboard.type(stage.apiKey)
        await page.keyboard.press("Enter")
        await page.getByRole("heading", { name: "Vault", level: 1 }).waitFor()
        await page.getByRole("slider").waitFor()
        for (
          let presses = 0;
          presses < 40 && (await page.evaluate(() => document.activeElement?.getAttribute("role"))) !== "slider";
          presses++
        )
          await page.keyboard.press("Tab")
        const latest = await page.getByRole("slider").getAttribute("aria-valuetext")
        await page.keyboard.press("Home")
        const first = await page.getByRole("slider").getAttribute("aria-valuetext")
        assert.match(first ?? "", /^\d+ \w+ 2030, .*Held .* USDC, Free .* USDC/)
        assert.notStrictEqual(first, latest)
        await tabTo("Show as table")
        await page.keyboard.press("Enter")
        await page.getByRole("table", { name: "Vault in USDC over time" }).waitFor()
        await page.getByRole("link", { name: "Vault", exact: true }).focus()
        await page.keyboard.press("Shift+Tab")
        await page.keyboard.press("Shift+Tab")
        assert.strictEqual(await focused(), "Skip to the page")
        await page.keyboard.press("Enter")
        assert.strictEqual(await page.evaluate(() => document.activeElement?.id), "main")
        await page.getByRole("link", { name: "API keys" }).focus()
        await page.keyboard.press("Enter")
        await page.getByRole("heading", { name: "API keys", level: 1 }).waitFor()
        assert.strictEqual(await page.evaluate(() => document.activeElement?.id), "main")
        await page.getByRole("button", { name: "Revoke" }).first().waitFor()
        await tabTo("Revoke")
        await page.keyboard.press("Enter")
        await page.getByRole("alertdialog").waitFor()
        await page.keyboard.press("Escape")
        await page.getByRole("alertdialog").waitFor({ state: "detached" })
        assert.strictEqual(await focused(), "Revoke")
      })
    )

    it.effect("shows local time on demand, and remembers the choice", () =>
      inTab(browser, "light", async ({ page }, stage) => {
        await signIn(page, stage)
        const first = page.getByRole("region", { name: "Movements" }).locator("time").last()
        const at = new Date((await first.getAttribute("datetime")) ?? "")
        assert.strictEqual(await first.textContent(), printTime(at.getTime()))
        await page.getByRole("button", { name: "Local time" }).focus()
        await page.keyboard.press("Enter")
        await page.getByRole("columnheader", { name: "When (local time)" }).waitFor()
        const inBerlin = printTime(at.getTime() + 3_600_000)
        assert.strictEqual(await first.textContent(), `${inBerlin} CET`)
        assert.deepStrictEqual(await findings(page), [])
        await page.reload()
        await page.getByRole("columnheader", { name: "When (local time)" }).waitFor()
        await open(page, "/users/anna", "anna")
        await page.locator(".timeline time").first().waitFor()
        const shown = await page.locator(".timeline li").evaluateAll((entries) =>
          entries.map((entry) => [
            entry.querySelector("time")?.getAttribute("datetime") ?? "",
            entry.querySelector("time")?.textContent ?? ""
          ])
        )
        for (const [instant = "", clock] of shown) {
          assert.strictEqual(clock, new Date(instant).toLocaleTimeString("en-GB", { timeZone: "Europe/Berlin" }))
        }
      })
    )

    it.effect("has an endpoint created, moved, rotated, pinged and deleted, each secret shown once", () =>
      endpointLife(browser)
    )

    it.effect("is served packed, cached by content, and under a policy without exceptions", () =>
      Effect.gen(function* () {
        const { baseUrl } = yield* Stage
        const get = (path: string) => Effect.promise(() => fetch(`${baseUrl}${path}`))
        const page = yield* get("/console")
        const policy = page.headers.get("content-security-policy") ?? ""
        assert.notInclude(policy, "unsafe")
        assert.notInclude(policy, "http")
        assert.include(policy, "default-src 'none'")
        assert.strictEqual(page.headers.get("cache-control"), "no-cache")
        const html = yield* Effect.promise(() => page.text())
        const script = /src="(\/console\/assets\/[^"]+\.js)"/.exec(html)?.[1] ?? ""
        const asset = yield* get(script)
        assert.strictEqual(asset.status, 200)
        assert.strictEqual(asset.headers.get("content-encoding"), "gzip")
        assert.include(asset.headers.get("cache-control") ?? "", "immutable")
        assert.isBelow(Number(asset.headers.get("content-length")), 300_000)
        for (const path of [
          "/console/assets/none.js",
          "/console/assets/..%2Findex.html",
          "/console/assets/%2e%2e%2f%2e%2e%2fpackage.json"
        ]) {
          assert.strictEqual((yield* get(path)).status, 404, path)
        }
      })
    )
  })
})
