import { assert, describe, it, layer } from "@effect/vitest"
import { explainsReward, rewardsAddUp, vaultToTheLastUnit } from "./Amounts.ts"
import { passesAxe, showsLocalTime } from "./Appearances.ts"
import { servesAssets } from "./Assets.ts"
import { launch } from "./Browser.ts"
import { listsDeliveries } from "./DeliveryList.ts"
import { problemsBesideFields, simulatesDraft } from "./Drafts.ts"
import { endpointLife } from "./EndpointLife.ts"
import { keyboardAlone } from "./Keyboard.ts"
import { rotatesKey } from "./KeyRotation.ts"
import { followsEvents } from "./Live.ts"
import { failsOffline } from "./Offline.ts"
import { pictures } from "./Pictures.ts"
import { showsDefinition } from "./ProgramPages.ts"
import { showsReference } from "./Reference.ts"
import { findsPurchase } from "./Purchases.ts"
import { meetsReplay, startsReplay } from "./ReplayRun.ts"
import { followsClock, followsVersions, outageKeepsContent, repeatsJump } from "./Rereads.ts"
import { playsSandbox } from "./SandboxPlay.ts"
import { explainsRefusedKey, keepsKeyInTab, retriesStoredKey, staysSignedOut } from "./Session.ts"
import { Stage } from "./Stage.ts"
import { setsThreshold } from "./Threshold.ts"

const { browser, reason } = await launch()
if (browser === undefined) process.stderr.write(`The console's tests are skipped, there is no browser: ${reason}\n`)

// counted as skipped where the others are not registered
it.skipIf(browser === undefined)("the console's tests have a browser", () => assert.isDefined(browser))

describe.skipIf(browser === undefined)("the console", () => {
  if (browser === undefined) return
  // one service and one browser for all tests, each in a tab of its own
  layer(Stage.layer, { excludeTestServices: true })((it) => {
    if (process.env["SCREENSHOTS"] !== undefined) it.effect("is pictured", () => pictures(browser), 120_000)

    it.effect("keeps the key in the tab: not in an address, not in lasting storage, and gone when one signs out", () =>
      keepsKeyInTab(browser)
    )

    it.effect("stays signed out, also where a key is still being checked", () => staysSignedOut(browser))

    it.effect("tries the key of the tab again on demand", () => retriesStoredKey(browser))

    it.effect("explains what to do about a key that is not accepted", () => explainsRefusedKey(browser))

    it.effect(
      "has no page that axe finds fault with, or that is too wide: light, dark, phone",
      () => passesAxe(browser),
      240_000
    )

    it.effect(
      "shows the vault to the last unit, also where there is no sandbox",
      () => vaultToTheLastUnit(browser)
    )

    it.effect("adds rewards up to what all users have, and saves the statement as CSV", () => rewardsAddUp(browser))

    it.effect("reads the newest events alone, and on from there", () => followsEvents(browser))

    it.effect("tells that free money is low, as long as there is a threshold", () => setsThreshold(browser))

    it.effect("explains a reward, with what was paid and is owed back", () => explainsReward(browser))

    it.effect("finds a purchase by any of its ids, with what it earned or why not, and quotes one", () =>
      findsPurchase(browser)
    )

    it.effect("shows all problems of a version beside their fields, and publishes it once they are fixed", () =>
      problemsBesideFields(browser)
    )

    it.effect("shows what a version pays and limits, from when", () => showsDefinition(browser))

    it.effect("simulates a draft against the past", () => simulatesDraft(browser))

    it.effect("lists deliveries with their attempts, delivers again and pings", () => listsDeliveries(browser))

    it.effect("starts a replay of chosen events, and shows it to its end", () => startsReplay(browser))

    for (const appearance of ["dark", "phone"] as const) {
      it.effect(`explains that another replay is running, and shows that one: ${appearance}`, () =>
        meetsReplay(browser, appearance)
      )
    }

    it.effect("rotates a key step by step, and does not take its own use of a key for that of services", () =>
      rotatesKey(browser)
    )

    it.effect("plays the sandbox: the clock, an enrollment, purchases, a claim and a refused withdrawal", () =>
      playsSandbox(browser)
    )

    it.effect("keeps what it shows, and what is typed, where it cannot be read again", () =>
      outageKeepsContent(browser)
    )

    it.effect("shows the sandbox clock as others move it, and its own move at once", () => followsClock(browser))

    it.effect("moves the sandbox clock once, however often a jump is repeated whose answer is lost", () =>
      repeatsJump(browser)
    )

    it.effect("fails at once where the browser is offline, and sends nothing later", () => failsOffline(browser))

    it.effect("proposes the number after the newest version, and says when a draft is based on an older one", () =>
      followsVersions(browser)
    )

    it.effect("can be used with the keyboard alone", () => keyboardAlone(browser))

    it.effect("shows local time on demand, and remembers the choice", () => showsLocalTime(browser))

    it.effect("has an endpoint created, moved, rotated, pinged and deleted, each secret shown once", () =>
      endpointLife(browser)
    )

    it.effect("stands beside a reference of every operation, whose samples can be copied", () =>
      showsReference(browser)
    )

    it.effect("is served packed, cached by content, and under a policy without exceptions", () => servesAssets)
  })
})
