import { applyCaps, evaluate } from "@card-rewards/domain/Evaluation"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { definitionProblems } from "@card-rewards/domain/Program/Problems"
import { compile } from "@card-rewards/domain/ProgramVersion"
import { Attributes } from "@card-rewards/domain/User"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as Rules from "./model/Rules.ts"

type Random = () => number

const randomFrom = (seed: number): Random => SeededRandom.make(seed).next

const at = Date.parse("2026-06-15T00:00:00.000Z")
const hour = 3_600_000
const countries = ["DE", "FR", "US"]
const segments = ["alpha", "beta", "γ"]
const tiers = ["silver", "gold", "δ"]
const assets: ReadonlyArray<Rules.AssetName> = ["USDC", "EURe"]

const below = (random: Random, end: number): number => Math.floor(random() * end)
const listOf = <A>(random: Random, end: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: below(random, end) }, (_, index) => make(index))
const someOf = <A>(random: Random, all: ReadonlyArray<A>): ReadonlyArray<A> => all.filter(() => random() < 0.5)
const oneOf = <A>(random: Random, all: ReadonlyArray<A>): A | undefined => all[below(random, all.length + 1)]
const mcc = (random: Random, spread: number): string => `${below(random, spread)}`.padStart(4, "0")
const time = (random: Random): string => new Date(at + (below(random, 5) - 2) * hour).toISOString()
const perMonth = (random: Random): string => `${below(random, 40_000_000)}`

/** Categories whose MCCs do not overlap; sometimes more than 255 of them. */
const categoriesOf = (random: Random, spread: number) => {
  const assigned = new Set<string>()
  const count = random() < 0.1 ? 1_000 : 12
  return listOf(random, count, (index) => ({
    id: `category ${index}`,
    mccs: listOf(random, 6, () => mcc(random, spread)).filter((one) => !assigned.has(one) && assigned.add(one))
  }))
}

const definitionOf = (random: Random, spread: number): Rules.Definition => {
  const categories = categoriesOf(random, spread)
  const ids = categories.map(({ id }) => id)
  const rates = () => someOf(random, ids).map((categoryId) => ({ categoryId, rate: below(random, 10_001) }))
  return {
    asset: assets[below(random, 2)] ?? "USDC",
    effectiveFrom: new Date(at).toISOString(),
    categories,
    baseRate: below(random, 10_001),
    categoryRates: rates(),
    merchantRates: [],
    tiers: someOf(random, tiers).map((tier) => ({
      tier,
      multiplier: below(random, 100_001),
      ...(random() < 0.5 ? {} : { baseRate: below(random, 10_001) }),
      ...(random() < 0.5 ? {} : { categoryRates: rates() })
    })),
    campaigns: listOf(random, 6, (index) => ({
      id: `campaign ${index}`,
      startsAt: time(random),
      endsAt: time(random),
      bonusRate: below(random, 10_001),
      ...(random() < 0.5 ? {} : { categoryIds: someOf(random, ids) })
    })),
    caps: {
      perMonth: perMonth(random),
      categories: someOf(random, ids).map((categoryId) => ({ categoryId, perMonth: perMonth(random) }))
    },
    exclusions: { mccs: listOf(random, 6, () => mcc(random, spread)), merchants: [] },
    holdingPeriodDays: 0,
    ...(random() < 0.5 ? {} : {
      eligibility: {
        ...(random() < 0.5 ? {} : { countries: someOf(random, countries) }),
        ...(random() < 0.5 ? {} : { segments: someOf(random, segments) })
      }
    })
  }
}

const attributesOf = (random: Random): Rules.Attributes => {
  const [tier, country, segment] = [oneOf(random, tiers), oneOf(random, countries), oneOf(random, segments)]
  return {
    ...(tier === undefined ? {} : { tier }),
    ...(country === undefined ? {} : { country }),
    ...(segment === undefined ? {} : { segment })
  }
}

describe("a compiled version", () => {
  it.prop("evaluates as the rules say of its definition", [Schema.Int], ([seed]) => {
    const random = randomFrom(seed)
    const spread = random() < 0.5 ? 40 : 10_000
    const definition = definitionOf(random, spread)
    const decoded = Schema.decodeUnknownSync(ProgramDefinition)(definition)
    const broken = [...definitionProblems(decoded)].filter((problem) => !/endsAt|at most|exclusions/.test(problem))
    assert.deepStrictEqual(broken, [])
    const version = compile("p", 1, decoded)
    const known = [...definition.categories.flatMap(({ mccs }) => mccs), ...definition.exclusions.mccs]
    for (let purchase = 0; purchase < 40; purchase++) {
      const attributes = attributesOf(random)
      const one = {
        at: at + (below(random, 5) - 2) * hour,
        cents: BigInt(below(random, 100_000)),
        mcc: oneOf(random, known) ?? mcc(random, spread)
      }
      const expected = Rules.evaluate(definition, { ...one, attributes })
      const found = evaluate(version, { ...one, attributes: Schema.decodeUnknownSync(Attributes)(attributes) })
      assert.deepStrictEqual(found && { category: found.category, raw: found.raw }, expected)
      if (expected === undefined) continue
      const used = { month: BigInt(below(random, 9_000_000)), category: BigInt(below(random, 9_000_000)) }
      const cap = Rules.categoryCap(definition, expected.category)
      const categoryRoom = cap === undefined ? [] : [cap - used.category]
      const room = Rules.least(BigInt(definition.caps.perMonth) - used.month, ...categoryRoom)
      assert.strictEqual(
        applyCaps(version, expected.category, expected.raw, used),
        Rules.notNegative(Rules.least(expected.raw, room))
      )
    }
  })
})
