import { assert, describe, it } from "@effect/vitest"
import { moneyParts, parseDecimal, parseMoney, printCompact, printDecimal, printMoney } from "../src/format/Money.ts"
import { printDay, printTime } from "../src/format/Time.ts"

describe("money as it is shown", () => {
  it("has every digit and no other", () => {
    assert.strictEqual(printMoney(1_234_567_890_123n, "USDC"), "1,234,567.890123 USDC")
    assert.strictEqual(printMoney(5_555_250n, "USDC"), "5.55525 USDC")
    assert.strictEqual(printMoney(1n, "EURe"), "0.000000000000000001 EURe")
    assert.strictEqual(printMoney(10n ** 77n, "EURe"), `100${",000".repeat(19)}.00 EURe`)
    assert.strictEqual(printMoney(0n, "USDC"), "0.00 USDC")
    assert.strictEqual(printMoney(-4_500_000n, "USDC"), "−4.50 USDC")
  })

  it("counts a currency in its own minor units", () => {
    assert.strictEqual(printMoney(12_345n, "USD"), "123.45 USD")
    assert.strictEqual(printMoney(12_345n, "JPY"), "12,345 JPY")
    assert.strictEqual(printMoney(12_345n, "KWD"), "12.345 KWD")
    // in these two the digits of Intl follow custom
    assert.strictEqual(printMoney(12_345n, "RSD"), "123.45 RSD")
    assert.strictEqual(printMoney(12_345n, "IQD"), "12.345 IQD")
  })

  it("is short beside an axis", () => {
    const shown = [0, 1_234, 999e12, 1e15, 2.0000000000000002e23].map(printCompact)
    assert.deepStrictEqual(shown, ["0", "1.23K", "999T", "1e+15", "2e+23"])
  })

  it("splits at the cents", () =>
    assert.deepStrictEqual(moneyParts(2_314_687n, "USDC"), { main: "2.31", rest: "4687" }))

  it("is read back as it was written", () => {
    for (const unit of ["USDC", "EURe"] as const) {
      for (let digits = 0n; digits < 40n; digits++) {
        const amount = 10n ** digits * 7n + digits
        assert.strictEqual(parseMoney(printMoney(amount, unit).replace(` ${unit}`, ""), unit), amount)
      }
    }
  })

  it("refuses what is finer than the unit, or no number", () => {
    const texts = ["1.0000001", "", "-1", "1e3", "1.", ".5", "1 000", "0x10"]
    // a comma before decimals, or anywhere else but after thousands
    const commas = ["1,5", "0,5", "12,50", "1,2345", ",5", "1,", "1,,000", "1234,567", "1,000.5,0"]
    for (const text of [...texts, ...commas]) assert.isUndefined(parseMoney(text, "USDC"), text)
    assert.isUndefined(parseDecimal("1,5", 2))
    assert.strictEqual(parseMoney("1,234,567.5", "USDC"), 1_234_567_500_000n)
  })

  it("keeps rates exact", () => {
    assert.strictEqual(parseDecimal("1.25", 2), 125n)
    assert.isUndefined(parseDecimal("1.255", 2))
    assert.strictEqual(printDecimal(125n, 2), "1.25")
    assert.strictEqual(printDecimal(15_000n, 4), "1.5")
  })
})

describe("instants as they are shown", () => {
  it("are UTC", () => assert.strictEqual(printTime(Date.parse("2030-01-15T23:59:59.999Z")), "15 Jan 2030, 23:59:59"))
  it("fit years of any length", () => assert.strictEqual(printDay(Date.parse("0099-03-01T00:00:00Z")), "1 Mar 0099"))
})
