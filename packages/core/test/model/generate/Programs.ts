import type { SeededRandom } from "@card-rewards/testing/SeededRandom"
import type { Operation } from "../Operation.ts"
import type { AssetName, Attributes, Definition } from "../Rules.ts"
import { day, hour, minute, type Scenario, some } from "./Scenario.ts"

/** The programs of every run, with their assets. */
export const programs: ReadonlyArray<readonly [program: string, asset: AssetName]> = [
  ["pa", "USDC"],
  ["pB", "USDC"],
  ["p-3", "USDC"],
  ["pe", "EURe"],
  ["Pe", "EURe"]
]

const rates = [0, 1, 33, 100, 100, 150, 500, 10_000, 10_000]
const caps = {
  USDC: [0n, 1n, 9_999n, 100_000n, 1_000_000n, 10_000_000n],
  EURe: [0n, 7n, 10n ** 17n, 10n ** 18n, 10n ** 20n]
}

export const attributes = ({ chance, pick }: SeededRandom): Attributes => ({
  ...(chance(0.6) ? { tier: pick(["gold", "silver", "lead"]) } : {}),
  ...(chance(0.6) ? { country: pick(["DE", "FR"]) } : {}),
  ...(chance(0.5) ? { segment: pick(["beta", "staff"]) } : {})
})

/** A version that is in force as early as may be (`isSoon`), or whose time may be too early or far away. */
export const publish = (
  scenario: Scenario,
  [program, asset]: typeof programs[number],
  version: number,
  isSoon: boolean
): Operation => {
  const { chance, pick } = scenario.random
  return {
    op: "publish",
    program,
    version,
    leadMillis: isSoon ? 5 * minute : pick([5 * minute - 1, 5 * minute, hour, 3 * day]),
    roundMillis: isSoon ? 1 : pick([1, day, day]),
    definition: definition(scenario, chance(0.97) ? asset : "EURe")
  }
}

const definition = (
  { hasHoldingPeriods, random }: Scenario,
  asset: AssetName
): Omit<Definition, "effectiveFrom"> => {
  const { chance, pick } = random
  const categories = [
    ...(chance(0.7) ? [{ id: "food", mccs: chance(0.5) ? ["5411", "5812"] : ["5411"] }] : []),
    ...(chance(0.5) ? [{ id: "travel", mccs: ["4111"] }] : [])
  ]
  const ids = categories.map(({ id }) => id)
  return {
    asset,
    categories,
    baseRate: pick(rates),
    categoryRates: categoryRates(random, ids),
    merchantRates: [],
    tiers: some(random, ["gold", "silver"], 0.6).map((tier) => ({
      tier,
      multiplier: pick([10_000, 12_500, 12_500, 0, 100_000, 3_333]),
      ...(chance(0.4) ? { baseRate: pick(rates) } : {}),
      ...(chance(0.4) ? { categoryRates: categoryRates(random, ids) } : {})
    })),
    campaigns: some(random, ["summer", "winter"], 0.4).map((id) => campaign(random, id, ids)),
    caps: {
      perMonth: `${chance(0.6) ? 10n ** 30n : pick(caps[asset])}`,
      categories: some(random, ids, 0.4).map((categoryId) => ({ categoryId, perMonth: `${pick(caps[asset])}` }))
    },
    exclusions: { mccs: chance(0.2) ? ["6011"] : [], merchants: [] },
    holdingPeriodDays: hasHoldingPeriods ? pick([0, 1, 1, 14]) : pick([0, 0, 0, 0, 1]),
    ...(chance(0.15) ? { eligibility: eligibility(random) } : {})
  }
}

const categoryRates = (random: SeededRandom, ids: ReadonlyArray<string>): Definition["categoryRates"] =>
  some(random, ids, 0.5).map((categoryId) => ({ categoryId, rate: random.pick(rates) }))

const campaign = (random: SeededRandom, id: string, ids: ReadonlyArray<string>): Definition["campaigns"][number] => {
  const { below, chance, pick } = random
  const start = Date.parse("2026-11-01T12:00:00.000Z") + below(40) * day
  return {
    id,
    startsAt: new Date(start).toISOString(),
    endsAt: new Date(start + pick([1, hour, 20 * day])).toISOString(),
    bonusRate: pick(rates),
    ...(chance(0.5) ? { categoryIds: some(random, ids, 0.6) } : {})
  }
}

const eligibility = (random: SeededRandom): NonNullable<Definition["eligibility"]> => ({
  ...(random.chance(0.6) ? { countries: some(random, ["DE", "FR"], 0.6) } : {}),
  ...(random.chance(0.4) ? { segments: ["beta"] } : {})
})
