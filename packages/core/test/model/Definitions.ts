import type * as SeededRandom from "@card-rewards/testing/SeededRandom"
import type { AssetName, Definition } from "./Rules.ts"

const hourMillis = 3_600_000
const dayMillis = 24 * hourMillis

const tiers = ["gold", "silver"]
const rates = [0, 1, 33, 100, 100, 150, 500, 10_000, 10_000]
const caps = {
  USDC: [0n, 1n, 9_999n, 100_000n, 1_000_000n, 10_000_000n],
  EURe: [0n, 7n, 10n ** 17n, 10n ** 18n, 10n ** 20n]
}

/** Random choices; the same seed results in the same ones. */
export interface Choices extends Pick<SeededRandom.SeededRandom, "below" | "chance"> {
  /** One of the values. */
  readonly from: <A>(values: ReadonlyArray<A>) => A
  /** One of the arguments. */
  readonly pick: <A>(first: A, ...others: ReadonlyArray<A>) => A
  /** Each of the values with this probability. */
  readonly some: <A>(values: ReadonlyArray<A>, probability: number) => ReadonlyArray<A>
}

/** A random definition. `hasLongHolding` makes holding periods of a day and more likely. */
export const randomDefinition = (
  { below, chance, from, pick, some }: Choices,
  asset: AssetName,
  hasLongHolding: boolean
): Omit<Definition, "effectiveFrom"> => {
  const food = chance(0.7) ? [{ id: "food", mccs: chance(0.5) ? ["5411", "5812"] : ["5411"] }] : []
  const categories = [...food, ...(chance(0.5) ? [{ id: "travel", mccs: ["4111"] }] : [])]
  const ids = categories.map(({ id }) => id)
  const categoryRates = () => some(ids, 0.5).map((categoryId) => ({ categoryId, rate: from(rates) }))
  return {
    asset,
    categories,
    baseRate: from(rates),
    categoryRates: categoryRates(),
    merchantRates: [],
    tiers: some(tiers, 0.6).map((tier) => ({
      tier,
      multiplier: pick(10_000, 12_500, 12_500, 0, 100_000, 3_333),
      ...(chance(0.4) ? { baseRate: from(rates) } : {}),
      ...(chance(0.4) ? { categoryRates: categoryRates() } : {})
    })),
    campaigns: some(["summer", "winter"], 0.4).map((id) => {
      const start = Date.parse("2026-11-01T12:00:00.000Z") + below(40) * dayMillis
      return {
        id,
        startsAt: new Date(start).toISOString(),
        endsAt: new Date(start + pick(1, hourMillis, 20 * dayMillis)).toISOString(),
        bonusRate: from(rates),
        ...(chance(0.5) ? { categoryIds: some(ids, 0.6) } : {})
      }
    }),
    caps: {
      perMonth: `${chance(0.6) ? 10n ** 30n : from(caps[asset])}`,
      categories: some(ids, 0.4).map((categoryId) => ({ categoryId, perMonth: `${from(caps[asset])}` }))
    },
    exclusions: { mccs: chance(0.2) ? ["6011"] : [], merchants: [] },
    holdingPeriodDays: hasLongHolding ? pick(0, 1, 1, 14) : pick(0, 0, 0, 0, 1),
    ...(chance(0.15) ? { eligibility: randomEligibility({ chance, some }) } : {})
  }
}

const randomEligibility = ({ chance, some }: Pick<Choices, "chance" | "some">) => ({
  ...(chance(0.6) ? { countries: some(["DE", "FR"], 0.6) } : {}),
  ...(chance(0.4) ? { segments: ["beta"] } : {})
})
