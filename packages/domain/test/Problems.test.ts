import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { definitionProblems, unknownKeys } from "@card-rewards/domain/Program/Problems"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const effectiveFrom = "2026-12-01T00:00:00.000Z"
const problemsOf = (changes: object) =>
  [...definitionProblems(Schema.decodeUnknownSync(ProgramDefinition)({ ...plainProgram, effectiveFrom, ...changes }))]

const times = <A>(count: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: count }, (_, index) => make(index))
const id = (index: number) => `c${index}`
const category = (index: number) => ({ id: id(index), mccs: [] })
const categories = times(200, category)
const rate = (index: number) => ({ categoryId: id(index), rate: 1 })
const tier = (index: number) => ({ tier: `t${index}`, multiplier: 1 })
const campaign = { startsAt: effectiveFrom, endsAt: "2026-12-02T00:00:00.000Z", bonusRate: 1 }
const mccs = (count: number) => times(count, (index) => `${index % 10_000}`.padStart(4, "0"))

/** Each limited list: its path, its limit, and a definition with a given length of it. */
const lists: ReadonlyArray<{
  readonly path: string
  readonly limit: number
  readonly definition: (length: number) => object
  readonly unit?: string
}> = [
  { path: "categories", limit: 200, definition: (length) => ({ categories: times(length, category) }) },
  { path: "categories", limit: 10_000, definition: (length) => ({
    categories: [{ id: "a", mccs: mccs(5_000) }, { id: "b", mccs: mccs(length).slice(5_000) }]
  }), unit: "MCCs in all" },
  { path: "categoryRates", limit: 200, definition: (length) => ({ categories, categoryRates: times(length, rate) }) },
  { path: "tiers", limit: 50, definition: (length) => ({ tiers: times(length, tier) }) },
  { path: "tiers[1].categoryRates", limit: 200, definition: (length) => ({
    categories,
    tiers: [tier(0), { ...tier(1), categoryRates: times(length, rate) }]
  }) },
  { path: "campaigns", limit: 200, definition: (length) => ({
    campaigns: times(length, (index) => ({ ...campaign, id: id(index) }))
  }) },
  { path: "campaigns[0].categoryIds", limit: 200, definition: (length) => ({
    categories,
    campaigns: [{ ...campaign, id: "a", categoryIds: times(length, (index) => id(index % 200)) }]
  }) },
  { path: "caps.categories", limit: 200, definition: (length) => ({
    categories,
    caps: { perMonth: "1", categories: times(length, (index) => ({ categoryId: id(index), perMonth: "1" })) }
  }) },
  { path: "exclusions.mccs", limit: 10_000, definition: (length) => ({
    exclusions: { mccs: mccs(length), merchants: [] }
  }) },
  { path: "eligibility.segments", limit: 200, definition: (length) => ({
    eligibility: { segments: times(length, id) }
  }) }
]

describe("a list of a definition", () => {
  it.each(lists)("$path has at most $limit entries", ({ definition, limit, path, unit = "entries" }) => {
    const problem = `${path}: must have at most ${limit} ${unit}`
    assert.deepStrictEqual(problemsOf(definition(limit)), [])
    assert.include(problemsOf(definition(limit + 1)), problem)
  })

  it("of countries has at most 300 entries", () => {
    const problem = "eligibility.countries: must have at most 300 entries"
    const countries = (length: number) => ({ eligibility: { countries: times(length, id) } })
    assert.notInclude(problemsOf(countries(300)), problem)
    assert.include(problemsOf(countries(301)), problem)
  })

  it("that is too long is refused together with every other one", () => {
    const changes = lists.map(({ definition, limit }) => definition(limit + 1))
    const { campaigns, exclusions, tiers } = Object.assign({}, ...changes)
    const found = problemsOf({
      tiers,
      campaigns,
      exclusions,
      categories: [...times(201, category), { id: "all", mccs: mccs(10_001) }],
      categoryRates: times(201, rate)
    })
    const limits = found.filter((problem) => problem.includes("must have at most"))
    assert.deepStrictEqual(limits.map((problem) => problem.split(":")[0]), [
      "categories",
      "categories",
      "categoryRates",
      "tiers[1].categoryRates",
      "campaigns[0].categoryIds",
      "exclusions.mccs"
    ])
  })

  it.each([
    [{ exclusions: { mccs: ["6011", "5411", "6011"], merchants: [] } }, "exclusions.mccs[2]: is there more than once"],
    [{ eligibility: { countries: ["DE", "FR", "DE"] } }, "eligibility.countries[2]: is there more than once"],
    [{ eligibility: { segments: ["beta", "beta"] } }, "eligibility.segments[1]: is there more than once"],
    [{ categories: [{ id: "a", mccs: ["5411", "5411"] }] }, "categories[0].mccs[1]: is in a category already"]
  ])("names an entry once: %o", (changes, problem) => {
    assert.deepStrictEqual(problemsOf(changes), [problem])
  })

  it("costs time in proportion to its length, however many problems it has", () => {
    /** Microseconds of this thread for a definition so many times. */
    const timeOf = (length: number, repeats: number) => {
      const changes = {
        categories: times(length, () => ({ id: "a", mccs: [] })),
        exclusions: { mccs: times(3 * length, () => "6011"), merchants: [] },
        eligibility: { segments: times(5 * length, (index) => `s${index}`) }
      }
      const definition = Schema.decodeUnknownSync(ProgramDefinition)({ ...plainProgram, effectiveFrom, ...changes })
      const before = process.threadCpuUsage()
      for (let left = repeats; left > 0; left--) assert.lengthOf([...definitionProblems(definition)], 501 + 501 + 3)
      const { system, user } = process.threadCpuUsage(before)
      return system + user
    }
    const short = timeOf(4_000, 20)
    const long = timeOf(40_000, 2)
    // a quadratic comparison would take ten times as long
    assert.isBelow(long / short, 4)
  })

  it("is refused with at most 500 problems of one kind, and all of the others", () => {
    const exclusions = (count: number) => ({ exclusions: { mccs: times(1 + count, () => "6011"), merchants: [] } })
    assert.lengthOf(problemsOf(exclusions(500)), 500)
    const categoryRates = times(200, () => ({ categoryId: "a", rate: -1 }))
    const tiers = times(50, (index) => ({ ...tier(index), categoryRates }))
    const found = problemsOf({ ...exclusions(501), tiers, merchantRates: [{}], holdingPeriodDays: -1 })
    const more = "definition: has more problems like the 500 above"
    // rates, categories and duplicates of the tiers, and MCCs
    assert.strictEqual(found.filter((problem) => problem === more).length, 4)
    assert.strictEqual(found[0], "holdingPeriodDays: must be from 0 to 365")
    assert.strictEqual(found.at(-2), more)
    assert.strictEqual(found.at(-1), "merchantRates: must be empty for now")
    assert.lengthOf(found, 1 + 3 * 501 + 501 + 1)
    for (const reason of ["must be from 0 to 10000", "names no category of this version", "is there more than once"]) {
      assert.lengthOf(found.filter((problem) => problem.startsWith("tiers[") && problem.endsWith(reason)), 500, reason)
    }
  })

  it("has no unknown key in any of its objects", () => {
    const more = { misspelt: 0 }
    const body = {
      ...more,
      categories: [more],
      categoryRates: [more],
      tiers: [{ ...more, categoryRates: [more] }],
      campaigns: [more],
      caps: { ...more, categories: [more] },
      exclusions: more,
      eligibility: more
    }
    assert.deepStrictEqual(unknownKeys(body), [
      "misspelt: is not known",
      "categories[0].misspelt: is not known",
      "categoryRates[0].misspelt: is not known",
      "tiers[0].misspelt: is not known",
      "tiers[0].categoryRates[0].misspelt: is not known",
      "campaigns[0].misspelt: is not known",
      "caps.misspelt: is not known",
      "caps.categories[0].misspelt: is not known",
      "exclusions.misspelt: is not known",
      "eligibility.misspelt: is not known"
    ])
  })

  it("has at most 500 unknown keys that are named", () => {
    const body = Object.fromEntries(times(501, (index) => [`k${index}`, 0]))
    assert.lengthOf(unknownKeys(body), 501)
    assert.strictEqual(unknownKeys(body).at(-1), "definition: has more problems like the 500 above")
  })
})
