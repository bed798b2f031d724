import {
  applyCaps,
  evaluate,
  expectedOf,
  indexInForce,
  inOrderOfEffect
} from "@card-rewards/domain/Evaluation"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { compile } from "@card-rewards/domain/ProgramVersion"
import { Attributes } from "@card-rewards/domain/User"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const definition = {
  asset: "USDC",
  effectiveFrom: "2026-01-01T00:00:00.000Z",
  categories: [{ id: "groceries", mccs: ["5411", "5499"] }, { id: "fuel", mccs: ["5541"] }],
  baseRate: 100,
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  merchantRates: [],
  tiers: [
    { tier: "gold", multiplier: 15_000, baseRate: 150, categoryRates: [{ categoryId: "groceries", rate: 400 }] },
    { tier: "silver", multiplier: 12_500, baseRate: 150 }
  ],
  campaigns: [
    { id: "all", startsAt: "2026-06-01T00:00:00.000Z", endsAt: "2026-07-01T00:00:00.000Z", bonusRate: 50 },
    {
      id: "fuel",
      startsAt: "2026-06-01T00:00:00.000Z",
      endsAt: "2026-07-01T00:00:00.000Z",
      bonusRate: 200,
      categoryIds: ["fuel"]
    }
  ],
  caps: { perMonth: "50000000", categories: [{ categoryId: "groceries", perMonth: "20000000" }] },
  exclusions: { mccs: ["6011"], merchants: [] },
  holdingPeriodDays: 14
}
const version = (changes: object = {}, number = 1) =>
  compile("p", number, Schema.decodeUnknownSync(ProgramDefinition)({ ...definition, ...changes }))

const may = Date.parse("2026-05-15T00:00:00.000Z")
const june = Date.parse("2026-06-01T00:00:00.000Z")
const july = Date.parse("2026-07-01T00:00:00.000Z")
const purchase = { at: may, cents: 12_345n, mcc: "5999", attributes: {} }

describe("evaluate", () => {
  it("is one floor at the end: 12345 cents at 150 bp × 12500 are 2314687 units of USDC", () => {
    assert.strictEqual(evaluate(version(), { ...purchase, attributes: { tier: "silver" } })?.raw, 2_314_687n)
  })

  it.each([
    [{ mcc: "5411", attributes: { tier: "gold" } }, 400, "tierCategory", 15_000],
    [{ mcc: "5411", attributes: { tier: "silver" } }, 300, "category", 12_500],
    [{ mcc: "5541", attributes: { tier: "gold" } }, 150, "tierBase", 15_000],
    [{ mcc: "5541", attributes: {} }, 100, "base", 10_000],
    [{ mcc: "5541", attributes: { tier: "unknown" } }, 100, "base", 10_000]
  ])("takes the most particular rate: %o", (of, value, source, multiplier) => {
    const evaluation = evaluate(version(), { ...purchase, ...of })
    assert.deepStrictEqual(
      [evaluation?.rate.value, evaluation?.rate.source, evaluation?.multiplier],
      [value, source, multiplier]
    )
  })

  it.each([[june - 1, 0], [june, 250], [july - 1, 250], [july, 0]])(
    "adds the bonuses of campaigns with startsAt ≤ P < endsAt: at %d they are %d",
    (at, bonus) => {
      const evaluation = evaluate(version(), { ...purchase, at, mcc: "5541" })
      assert.strictEqual(evaluation?.bonuses.reduce((sum, { bonusRate }) => sum + bonusRate, 0), bonus)
      assert.strictEqual(evaluation?.raw, 12_345n * 10_000n * BigInt(100 + bonus) / 10_000n)
    }
  )

  it("does not multiply a bonus by the tier", () => {
    const evaluation = evaluate(version(), { ...purchase, at: june, mcc: "5999", attributes: { tier: "gold" } })
    assert.strictEqual(evaluation?.raw, 12_345n * 10_000n * (150n * 15_000n + 50n * 10_000n) / 10n ** 8n)
  })

  it("gives nothing for an excluded MCC", () => assert.isUndefined(evaluate(version(), { ...purchase, mcc: "6011" })))

  it.each([
    [{ countries: ["DE"] }, {}, false],
    [{ countries: ["DE"] }, { country: "DE" }, true],
    [{ countries: ["DE"], segments: ["beta"] }, { country: "DE" }, false],
    [{ countries: ["DE"], segments: ["beta"] }, { country: "DE", segment: "beta" }, true],
    [{ countries: [], segments: [] }, {}, true],
    [{ countries: [], segments: ["beta"] }, { segment: "alpha" }, false]
  ])("is limited to eligible users: %o with %o is %s", (eligibility, attributes, eligible) => {
    const decoded = Schema.decodeUnknownSync(Attributes)(attributes)
    const found = evaluate(version({ eligibility }), { ...purchase, attributes: decoded })
    assert.strictEqual(found !== undefined, eligible)
  })

  it("counts EURe in units of 10^-18", () => {
    assert.strictEqual(evaluate(version({ asset: "EURe" }), purchase)?.raw, 12_345n * 10n ** 16n / 100n)
  })
})

describe("the version in force", () => {
  const at = (effectiveFrom: string, number: number) => version({ effectiveFrom }, number)
  const versions = inOrderOfEffect([
    at("2026-03-01T00:00:00.000Z", 2),
    at("2026-01-01T00:00:00.000Z", 7),
    at("2026-03-01T00:00:00.000Z", 5)
  ])
  it("is the greatest effectiveFrom, of equal ones the higher number", () => {
    const numberAt = (time: string) => versions[indexInForce(versions, Date.parse(time))]?.version
    assert.strictEqual(numberAt("2026-03-01T00:00:00.000Z"), 5)
    assert.strictEqual(numberAt("2026-02-28T23:59:59.999Z"), 7)
    assert.isUndefined(numberAt("2025-12-31T23:59:59.999Z"))
  })
})

const amounts = Schema.BigInt.check(Schema.isBetweenBigInt({ minimum: 0n, maximum: 60_000_000n }))

describe("caps", () => {
  it.prop(
    "never give more than the raw amount or than what is left of either cap, and never less than zero",
    [amounts, amounts, amounts],
    ([raw, month, category]) => {
      const earned = applyCaps(version(), "groceries", raw, { month, category })
      const rooms = [raw, 50_000_000n - month, 20_000_000n - category]
      assert.isTrue(earned >= 0n && rooms.every((room) => earned <= (room < 0n ? 0n : room)))
      assert.isTrue(earned === 0n || rooms.includes(earned))
    }
  )

  it.prop(
    "hold for estimates too: the sum of categories within their rooms, none of them less than zero, within the month's",
    [amounts, amounts, amounts, amounts],
    ([groceries, others, used, usedOnGroceries]) => {
      const of = version()
      const expected = expectedOf(
        [{ version: of, category: "groceries", raw: groceries }, { version: of, category: undefined, raw: others }],
        (newest) => newest,
        () => usedOnGroceries,
        used
      )
      const least = (a: bigint, b: bigint) => a < b ? a : b
      const notNegative = (amount: bigint) => amount < 0n ? 0n : amount
      const sum = notNegative(least(groceries, 20_000_000n - usedOnGroceries)) + others
      assert.strictEqual(expected, notNegative(least(sum, 50_000_000n - used)))
    }
  )
})
