import { ProgramDefinition } from "@card-rewards/domain/Program"
import { problems as serviceProblems } from "@card-rewards/domain/Program/Problems"
import { dayMillis, instant } from "@card-rewards/domain/Time"
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { assign, compile, decode } from "../src/pages/program/Compile.ts"
import { type Draft, draftOf, emptyDraft } from "../src/pages/program/Draft.ts"
import { fieldName } from "../src/pages/program/Sections.ts"

const now = Date.parse("2030-01-01T00:00:00Z")
const effectiveFrom = instant(now + dayMillis)

/** With everything that a definition can hold. */
const full: ProgramDefinition = {
  asset: "EURe",
  effectiveFrom,
  categories: [
    { id: "a", mccs: ["5411", "5499"] },
    { id: "b", mccs: ["5812"] },
    { id: "home, garden", mccs: [] },
    { id: " spaced ", mccs: [] }
  ],
  baseRate: 125,
  categoryRates: [{ categoryId: "b", rate: 300 }, { categoryId: " spaced ", rate: 2 }],
  merchantRates: [],
  tiers: [
    { tier: "silver", multiplier: 12_345 },
    { tier: " gold ", multiplier: 20_000, baseRate: 150, categoryRates: [{ categoryId: "b", rate: 1 }] }
  ],
  campaigns: [
    { id: "c", startsAt: effectiveFrom, endsAt: instant(effectiveFrom + dayMillis), bonusRate: 5, categoryIds: ["a"] },
    {
      id: "d",
      startsAt: effectiveFrom,
      endsAt: instant(effectiveFrom + dayMillis - 1),
      bonusRate: 5,
      categoryIds: ["home, garden", "b"]
    },
    { id: "in none", startsAt: effectiveFrom, endsAt: instant(effectiveFrom + 1), bonusRate: 5, categoryIds: [] },
    { id: "in all", startsAt: effectiveFrom, endsAt: instant(effectiveFrom + 1), bonusRate: 5 }
  ],
  caps: { perMonth: 10n ** 18n * 40n + 1n, categories: [{ categoryId: "b", perMonth: 7n }] },
  exclusions: { mccs: ["6011"], merchants: [] },
  holdingPeriodDays: 14,
  eligibility: { countries: ["DE", "AT"], segments: ["beta", "my staff", "EU, retail", 'the "new" ones', " spaced "] }
}

const problemsOf = (draft: Draft) => {
  const compiled = compile(draft)
  const decoded = decode(compiled)
  return Result.isFailure(decoded)
    ? decoded.failure
    : assign(compiled, [...serviceProblems(decoded.success, { now, otherPrograms: 0, versions: undefined })])
}

describe("the form of a version", () => {
  it("publishes what it was loaded with, to the last unit", () => {
    const decoded = decode(compile(draftOf("p", 2, full, effectiveFrom)))
    assert.isTrue(Result.isSuccess(decoded))
    if (Result.isSuccess(decoded)) assert.deepStrictEqual(decoded.success, full)
  })

  it("reads a list with quotes and any spaces", () => {
    const segments = `"EU, retail" , beta ,"a ""b""" `
    const decoded = decode(compile({ ...draftOf("p", 2, full, effectiveFrom), segments }))
    assert.isTrue(Result.isSuccess(decoded))
    if (Result.isSuccess(decoded)) {
      assert.deepStrictEqual(decoded.success.eligibility?.segments, ["EU, retail", "beta", `a "b"`])
    }
  })

  it("begins with a definition that the service takes", () => {
    assert.deepStrictEqual([...problemsOf({ ...emptyDraft(effectiveFrom), programId: "p" })], [])
  })

  it("places every problem of the service beside the field that causes it", () => {
    const draft = draftOf("p", 1, full, now)
    const found = problemsOf({
      ...draft,
      baseRate: "101",
      holdingPeriodDays: "366",
      categories: [
        { id: "a", mccs: "5411", rate: "", cap: "1" },
        { id: "a", mccs: "5812 5411", rate: "200", cap: "" }
      ],
      tiers: [{ tier: "gold", multiplier: "10.0001", baseRate: "100.01", rates: ["", "100.5"] }],
      campaigns: [
        {
          id: "c",
          startsAt: "2030-01-02T00:00",
          endsAt: "2030-01-02T00:00:00",
          bonusRate: "1",
          categoryIds: "nowhere"
        }
      ],
      countries: "DE ZZ"
    })
    assert.deepStrictEqual([...found.keys()].sort(), [
      "baseRate",
      "campaigns.0.categoryIds",
      "campaigns.0.endsAt",
      "categories.1.id",
      "categories.1.mccs",
      "categories.1.rate",
      "countries",
      "effectiveFrom",
      "holdingPeriodDays",
      "tiers.0.baseRate",
      "tiers.0.multiplier",
      "tiers.0.rates.1"
    ])
    assert.deepStrictEqual(found.get("countries"), ["ZZ: is no ISO 3166-1 alpha-2 country code"])
    assert.deepStrictEqual(found.get("categories.1.mccs"), ["5411: is in a category already"])
  })

  it("reports all texts that are no values at once, beside their fields", () => {
    const found = problemsOf({
      ...draftOf("p", 1, full, effectiveFrom),
      programId: "a:b",
      version: "0",
      baseRate: "1.255",
      perMonth: "much",
      effectiveFrom: "",
      holdingPeriodDays: "7.5"
    })
    assert.deepStrictEqual([...found.keys()].sort(), [
      "baseRate",
      "effectiveFrom",
      "holdingPeriodDays",
      "perMonth",
      "programId",
      "version"
    ])
  })

  it("reports a wrong shape beside its field", () => {
    const found = problemsOf({
      ...draftOf("p", 1, full, effectiveFrom),
      excludedMccs: "601",
      categories: [{ id: "", mccs: "54111", rate: "", cap: "" }],
      tiers: [],
      campaigns: []
    })
    assert.deepStrictEqual([...found.keys()].sort(), ["categories.0.id", "categories.0.mccs", "excludedMccs"])
  })

  it("names each field as its input is labelled", () => {
    assert.deepStrictEqual(
      ["perMonth", "categories.0.mccs", "tiers.1.baseRate", "tiers.0.rates.2", "campaigns.2.endsAt"].map(fieldName),
      [
        "Cap per user and month",
        "Category 1, MCCs",
        "Tier 2, Base rate",
        "Tier 1, Rate of category 3",
        "Campaign 3, Ends (UTC)"
      ]
    )
  })

  it("leaves nothing of a definition out", () => {
    const shown = new Set(Object.keys(full))
    // what must be empty for now has no field
    for (const key of Object.keys(ProgramDefinition.fields))
      assert.isTrue(shown.has(key) || key === "referralBonus", key)
    assert.isTrue(Schema.is(ProgramDefinition)(full))
  })
})
