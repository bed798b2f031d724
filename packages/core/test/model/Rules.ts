/**
 * The rules of a purchase (decisions, sections 4 and 5), written from their text alone: no code is shared with the
 * service.
 */

export type AssetName = "USDC" | "EURe"
export const assetNames: ReadonlyArray<AssetName> = ["USDC", "EURe"]

/** The attributes of a user. */
export interface Attributes {
  readonly tier?: string
  readonly country?: string
  readonly segment?: string
}

export interface CategoryRate {
  readonly categoryId: string
  readonly rate: number
}

/** A program version as it is on the wire. */
export interface Definition {
  readonly asset: AssetName
  readonly effectiveFrom: string
  readonly categories: ReadonlyArray<{ readonly id: string; readonly mccs: ReadonlyArray<string> }>
  readonly baseRate: number
  readonly categoryRates: ReadonlyArray<CategoryRate>
  readonly merchantRates: ReadonlyArray<never>
  readonly tiers: ReadonlyArray<{
    readonly tier: string
    readonly multiplier: number
    readonly baseRate?: number
    readonly categoryRates?: ReadonlyArray<CategoryRate>
  }>
  readonly campaigns: ReadonlyArray<{
    readonly id: string
    readonly startsAt: string
    readonly endsAt: string
    readonly bonusRate: number
    readonly categoryIds?: ReadonlyArray<string>
  }>
  readonly caps: {
    readonly perMonth: string
    readonly categories: ReadonlyArray<{ readonly categoryId: string; readonly perMonth: string }>
  }
  readonly exclusions: { readonly mccs: ReadonlyArray<string>; readonly merchants: ReadonlyArray<never> }
  readonly holdingPeriodDays: number
  readonly eligibility?: { readonly countries?: ReadonlyArray<string>; readonly segments?: ReadonlyArray<string> }
}

export interface Version {
  readonly version: number
  readonly definition: Definition
}

export const least = (first: bigint, ...others: ReadonlyArray<bigint>): bigint =>
  others.reduce((low, next) => next < low ? next : low, first)

export const notNegative = (amount: bigint): bigint => amount < 0n ? 0n : amount

export const sum = (amounts: ReadonlyArray<bigint>): bigint => amounts.reduce((total, amount) => total + amount, 0n)

/** "2026-11": the UTC calendar month. */
export const monthName = (at: number): string => new Date(at).toISOString().slice(0, 7)

const decimals = { USDC: 6n, EURe: 18n }

export const assetOf = (currency: string): AssetName | undefined => {
  if (currency === "USD") return "USDC"
  if (currency === "EUR") return "EURe"
  return undefined
}

/** Section 5.2: the version with the latest `effectiveFrom` up to the purchase; of equal ones the higher number. */
export const versionInForce = (versions: ReadonlyArray<Version>, purchase: number): Version | undefined =>
  newest(versions.filter(({ definition }) => Date.parse(definition.effectiveFrom) <= purchase))

export const newest = (versions: ReadonlyArray<Version>): Version | undefined =>
  [...versions].sort((left, right) =>
    Date.parse(right.definition.effectiveFrom) - Date.parse(left.definition.effectiveFrom) ||
    right.version - left.version
  )[0]

export interface Evaluated {
  readonly category: string | undefined
  readonly raw: bigint
}

/** The part of a purchase on which its reward depends. */
export interface Purchase {
  readonly cents: bigint
  readonly mcc: string
  readonly at: number
  readonly attributes: Attributes
}

/** Section 5.5 up to `raw`; undefined where the purchase is excluded or the user not eligible. */
export const evaluate = (definition: Definition, purchase: Purchase): Evaluated | undefined => {
  const { at, attributes, cents, mcc } = purchase
  if (definition.exclusions.mccs.includes(mcc)) return undefined
  if (!isAllowed(definition.eligibility?.countries, attributes.country)) return undefined
  if (!isAllowed(definition.eligibility?.segments, attributes.segment)) return undefined
  const category = definition.categories.find(({ mccs }) => mccs.includes(mcc))?.id
  const tier = definition.tiers.find((one) => one.tier === attributes.tier)
  const rateIn = (rates: ReadonlyArray<CategoryRate> | undefined) =>
    rates?.find(({ categoryId }) => categoryId === category)?.rate
  const rate = rateIn(tier?.categoryRates) ?? rateIn(definition.categoryRates) ?? tier?.baseRate ?? definition.baseRate
  const multiplier = tier?.multiplier ?? 10_000
  let bonus = 0
  for (const { bonusRate, categoryIds, endsAt, startsAt } of definition.campaigns) {
    if (at < Date.parse(startsAt) || at >= Date.parse(endsAt)) continue
    if (categoryIds === undefined || (category !== undefined && categoryIds.includes(category))) bonus += bonusRate
  }
  const units = cents * 10n ** (decimals[definition.asset] - 2n)
  const raw = units * (BigInt(rate) * BigInt(multiplier) + BigInt(bonus) * 10_000n) / 10n ** 8n
  return { category, raw }
}

/** An empty or absent list does not limit; a user without the attribute is in no list. */
const isAllowed = (list: ReadonlyArray<string> | undefined, attribute: string | undefined): boolean =>
  list === undefined || list.length === 0 || (attribute !== undefined && list.includes(attribute))

/** A category's monthly cap, or undefined where it has none. */
export const categoryCap = (definition: Definition, category: string | undefined): bigint | undefined => {
  const cap = definition.caps.categories.find(({ categoryId }) => categoryId === category)
  return cap === undefined ? undefined : BigInt(cap.perMonth)
}
