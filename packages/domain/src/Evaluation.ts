import { type Asset, unitsPerCent } from "./Money.ts"
import type { ProgramDefinition } from "./Program.ts"
import type { Attributes } from "./User.ts"

/** A published version made ready for evaluation: its lists turned into look-ups. */
export interface ProgramVersion {
  readonly programId: string
  readonly version: number
  readonly asset: Asset
  /** Milliseconds; purchases from then on. */
  readonly effectiveFrom: number
  readonly holdingPeriodDays: number
  readonly monthCap: bigint
  readonly categoryCaps: ReadonlyMap<string, bigint>
  readonly definition: ProgramDefinition
  readonly categoryOfMcc: ReadonlyMap<string, string>
  readonly excludedMccs: ReadonlySet<string>
  readonly rates: RateTable
  readonly tiers: ReadonlyMap<string, RateTable & { readonly multiplier: number }>
}

interface RateTable {
  readonly baseRate: number | undefined
  readonly categoryRates: ReadonlyMap<string, number>
}

/** Makes a published definition ready for evaluation. */
export const compile = (programId: string, version: number, definition: ProgramDefinition): ProgramVersion => ({
  programId,
  version,
  asset: definition.asset,
  effectiveFrom: definition.effectiveFrom,
  holdingPeriodDays: definition.holdingPeriodDays,
  monthCap: definition.caps.perMonth,
  categoryCaps: new Map(definition.caps.categories.map((cap) => [cap.categoryId, cap.perMonth])),
  definition,
  categoryOfMcc: new Map(definition.categories.flatMap((category) => category.mccs.map((mcc) => [mcc, category.id]))),
  excludedMccs: new Set(definition.exclusions.mccs),
  rates: {
    baseRate: definition.baseRate,
    categoryRates: rateMap(definition.categoryRates)
  },
  tiers: new Map(definition.tiers.map((tier) => [tier.tier, {
    multiplier: tier.multiplier,
    baseRate: tier.baseRate,
    categoryRates: rateMap(tier.categoryRates ?? [])
  }]))
})

const rateMap = (rates: ReadonlyArray<{ readonly categoryId: string; readonly rate: number }>) =>
  new Map(rates.map((entry) => [entry.categoryId, entry.rate]))

/** A program's versions in order of taking effect, as {@link versionInForce} looks them up. */
export const inOrderOfEffect = (versions: ReadonlyArray<ProgramVersion>): ReadonlyArray<ProgramVersion> =>
  versions.toSorted((a, b) => isNewer(a, b) ? 1 : -1)

/**
 * The version in force at an instant: the greatest `effectiveFrom` at or before it, of equal ones the higher number
 * (decisions, section 5.2). The versions are one program's, {@link inOrderOfEffect}.
 */
export const versionInForce = (versions: ReadonlyArray<ProgramVersion>, at: number): ProgramVersion | undefined => {
  let low = 0
  let high = versions.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((versions[middle]?.effectiveFrom ?? Infinity) <= at) low = middle + 1
    else high = middle
  }
  return versions[low - 1]
}

/** Whether a version comes after another in the order of taking effect. */
const isNewer = (candidate: ProgramVersion, other: ProgramVersion): boolean =>
  candidate.effectiveFrom > other.effectiveFrom ||
  (candidate.effectiveFrom === other.effectiveFrom && candidate.version > other.version)

/** What a program looks at of a purchase. */
export interface Purchase {
  /** Milliseconds: the linked authorization's `occurredAt`, else the clearing's own. */
  readonly at: number
  /** Minor units. */
  readonly cents: bigint
  readonly mcc: string
  /** The user's attributes as they stood at `at`. */
  readonly attributes: Attributes
}

/** Where a rate came from, most particular first. */
export type RateSource = "tierCategory" | "category" | "tierBase" | "base"

/** How a purchase's reward came about, before caps. */
export interface Evaluation {
  readonly category: string | undefined
  readonly rate: { readonly value: number; readonly source: RateSource }
  /** Basis points: 10000 is 1×. */
  readonly multiplier: number
  readonly bonuses: ReadonlyArray<{ readonly campaignId: string; readonly bonusRate: number }>
  /** Smallest units of the version's asset. */
  readonly raw: bigint
}

/** What a version gives for a purchase, or undefined where it excludes it (decisions, section 5.5). */
export const evaluate = (version: ProgramVersion, purchase: Purchase): Evaluation | undefined => {
  if (version.excludedMccs.has(purchase.mcc) || !isEligible(version, purchase.attributes)) return undefined
  const category = version.categoryOfMcc.get(purchase.mcc)
  const tier = purchase.attributes.tier === undefined ? undefined : version.tiers.get(purchase.attributes.tier)
  const rate = rateOf(version, tier, category)
  const multiplier = tier?.multiplier ?? 10_000
  const bonuses = version.definition.campaigns
    .filter((campaign) =>
      campaign.startsAt <= purchase.at && purchase.at < campaign.endsAt &&
      (campaign.categoryIds === undefined || (category !== undefined && campaign.categoryIds.includes(category)))
    )
    .map((campaign) => ({ campaignId: campaign.id, bonusRate: campaign.bonusRate }))
  const bonusRate = bonuses.reduce((sum, bonus) => sum + bonus.bonusRate, 0)
  const rateTimesMultiplier = BigInt(rate.value * multiplier + bonusRate * 10_000)
  const raw = purchase.cents * unitsPerCent[version.asset] * rateTimesMultiplier / 10n ** 8n
  return { category, rate, multiplier, bonuses, raw }
}

const isEligible = (version: ProgramVersion, attributes: Attributes): boolean => {
  const { countries = [], segments = [] } = version.definition.eligibility ?? {}
  return (countries.length === 0 || (attributes.country !== undefined && countries.includes(attributes.country))) &&
    (segments.length === 0 || (attributes.segment !== undefined && segments.includes(attributes.segment)))
}

const rateOf = (
  version: ProgramVersion,
  tier: RateTable | undefined,
  category: string | undefined
): Evaluation["rate"] => {
  const inCategory = (table: RateTable | undefined) =>
    category === undefined ? undefined : table?.categoryRates.get(category)
  const tierCategory = inCategory(tier)
  if (tierCategory !== undefined) return { value: tierCategory, source: "tierCategory" }
  const ofCategory = inCategory(version.rates)
  if (ofCategory !== undefined) return { value: ofCategory, source: "category" }
  if (tier?.baseRate !== undefined) return { value: tier.baseRate, source: "tierBase" }
  return { value: version.definition.baseRate, source: "base" }
}

/** Net amounts earned so far by a user, in a program and month: in all, and in the purchase's category. */
export interface Usage {
  readonly month: bigint
  readonly category: bigint
}

/** What the caps leave of a raw amount: `max(0, min(raw, category cap − used, month cap − used))`. */
export const applyCaps = (
  version: ProgramVersion,
  category: string | undefined,
  raw: bigint,
  used: Usage
): bigint => {
  const categoryCap = category === undefined ? undefined : version.categoryCaps.get(category)
  return positive(least(raw, room(version.monthCap, used.month), categoryCap && room(categoryCap, used.category)))
}

const room = (cap: bigint, used: bigint): bigint => cap - used

const least = (first: bigint, ...others: ReadonlyArray<bigint | undefined>): bigint =>
  others.reduce<bigint>((least, other) => other !== undefined && other < least ? other : least, first)

const positive = (value: bigint): bigint => value > 0n ? value : 0n

/** The estimates of one version's categories in one program and month. */
export interface OpenEstimate {
  readonly version: ProgramVersion
  /** undefined: merchants outside every category. */
  readonly category: string | undefined
  /** Σ raw of the open authorizations. */
  readonly raw: bigint
}

/**
 * What the open authorizations of one user, program and month are expected to earn:
 * `min(month room, Σ over categories of min(category room, Σ raw))`, by the newest version involved
 * (decisions, section 5.6).
 */
export const expectedOf = (
  estimates: ReadonlyArray<OpenEstimate>,
  used: (category: string | undefined) => bigint,
  monthUsed: bigint
): bigint => {
  const [first, ...rest] = estimates
  if (first === undefined) return 0n
  const newest = rest.reduce((newest, { version }) => isNewer(version, newest) ? version : newest, first.version)
  const byCategory = new Map<string | undefined, bigint>()
  for (const { category, raw } of estimates) byCategory.set(category, (byCategory.get(category) ?? 0n) + raw)
  let sum = 0n
  for (const [category, raw] of byCategory) {
    const cap = category === undefined ? undefined : newest.categoryCaps.get(category)
    sum += cap === undefined ? raw : positive(least(raw, room(cap, used(category))))
  }
  return positive(least(sum, room(newest.monthCap, monthUsed)))
}
