import { unitsPerCent } from "./Money.ts"
import {
  bytesOfRow,
  excludedMcc,
  firstCategory,
  noRate,
  noRow,
  type ProgramVersion,
  type Rate
} from "./ProgramVersion.ts"
import type { UnearnedReason } from "./SpendEventStatus.ts"
import type { Attributes } from "./User.ts"

/** The fields of a version that determine when it is in force. */
export interface Effective {
  readonly version: number
  /** Milliseconds. The version applies to purchases from this time on. */
  readonly effectiveFrom: number
}

/** Sorts a program's versions in the order in which they take effect, as {@link indexInForce} requires. */
export const inOrderOfEffect = <V extends Effective>(versions: ReadonlyArray<V>): ReadonlyArray<V> =>
  versions.toSorted((a, b) => isNewer(a, b) ? 1 : -1)

/**
 * Returns the index of the version in force at an instant: the one with the greatest `effectiveFrom` at or before it,
 * and of equal ones the highest number (decisions, section 5.2); −1 where there is none. The versions are those of one
 * program, {@link inOrderOfEffect}.
 */
export const indexInForce = (versions: ReadonlyArray<Effective>, at: number): number => {
  let low = 0
  let high = versions.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((versions[middle]?.effectiveFrom ?? Infinity) <= at) low = middle + 1
    else high = middle
  }
  return low - 1
}

/** Whether a version comes after another in the order of taking effect. */
export const isNewer = (candidate: Effective, other: Effective): boolean =>
  candidate.effectiveFrom > other.effectiveFrom ||
  (candidate.effectiveFrom === other.effectiveFrom && candidate.version > other.version)

/** The part of a purchase on which its reward depends. */
export interface Purchase {
  /** Milliseconds: `occurredAt` of the linked authorization, or else of the clearing. */
  readonly at: number
  /** Minor units. */
  readonly cents: bigint
  readonly mcc: string
  /** The user's attributes at `at`. */
  readonly attributes: Attributes
}

/** The computation of a purchase's reward, before caps. */
export interface Evaluation {
  readonly category: string | undefined
  readonly rate: Rate
  /** Basis points: 10000 is 1×. */
  readonly multiplier: number
  readonly bonuses: ReadonlyArray<{ readonly campaignId: string; readonly bonusRate: number }>
  /** Smallest units of the version's asset. */
  readonly raw: bigint
}

/** Cents × basis points of the rate × basis points of the multiplier. */
const rateScale = 10n ** 8n

const noBonuses: Evaluation["bonuses"] = []

/**
 * Computes the reward of a purchase before caps; undefined if the version excludes its MCC, or its user is not eligible
 * (decisions, section 5.5). docs/money.md, "What a purchase earns", explains the formula.
 */
export const evaluate = (version: ProgramVersion, purchase: Purchase): Evaluation | undefined => {
  const { at, attributes, cents, mcc } = purchase
  const found = entryOfMcc(version, mcc)
  if (found === excludedMcc || !isEligible(version, attributes)) return undefined
  const index = found - firstCategory
  const tier = attributes.tier === undefined ? undefined : version.tiers.get(attributes.tier)
  const rate = rateOf(version, tier, index)
  const multiplier = tier?.multiplier ?? 10_000
  let bonuses: Array<Evaluation["bonuses"][number]> | undefined
  let bonusRate = 0
  for (const campaign of version.campaigns) {
    if (at < campaign.startsAt || at >= campaign.endsAt || !isCampaignFor(version, campaign.row, index)) continue
    bonuses ??= []
    bonuses.push({ campaignId: campaign.id, bonusRate: campaign.bonusRate })
    bonusRate += campaign.bonusRate
  }
  const rateTimesMultiplier = rate.value * multiplier + bonusRate * 10_000
  const raw = rateTimesMultiplier === 0
    ? 0n
    : cents * unitsPerCent[version.asset] * BigInt(rateTimesMultiplier) / rateScale
  const category = index < 0 ? undefined : version.categories[index]
  return { category, rate, multiplier, bonuses: bonuses ?? noBonuses, raw }
}

/** Whether a version excludes purchases at an MCC. */
export const isExcluded = (version: ProgramVersion, mcc: string): boolean => entryOfMcc(version, mcc) === excludedMcc

/** Checks the bounds of the table first, because V8 reads an index outside an array slowly. */
const entryOfMcc = ({ firstMcc, mccs }: ProgramVersion, mcc: string): number => {
  if (mccs.length === 0) return 0
  const index = numberOf(mcc) - firstMcc
  return index >= 0 && index < mccs.length ? mccs[index] ?? 0 : 0
}

/** The number of an MCC, which has four digits. Every program needs it, and `Number` takes twice as long. */
const numberOf = (mcc: string): number =>
  1_000 * digit(mcc, 0) + 100 * digit(mcc, 1) + 10 * digit(mcc, 2) + digit(mcc, 3)

const digit = (digits: string, index: number): number => digits.charCodeAt(index) - 48

const isEligible = ({ countries, segments }: ProgramVersion, { country, segment }: Attributes): boolean =>
  (countries === undefined || (country !== undefined && countries.has(country))) &&
  (segments === undefined || (segment !== undefined && segments.has(segment)))

/** A negative `category` is a purchase outside every category. */
const isCampaignFor = (version: ProgramVersion, row: number, category: number): boolean => {
  if (row === noRow || category < 0) return row === noRow
  const byte = version.campaignCategories[row * bytesOfRow(version.categories.length) + (category >> 3)] ?? 0
  return (byte & (1 << (category & 7))) !== 0
}

const rateOf = (
  version: ProgramVersion,
  tier: { readonly base: Rate | undefined; readonly row: number } | undefined,
  category: number
): Rate => {
  if (category >= 0) {
    const tierCategory = tier === undefined || tier.row === noRow ? noRate : rateIn(version, tier.row, category)
    if (tierCategory !== noRate) return { value: tierCategory, source: "tierCategory" }
    const ofCategory = rateIn(version, 0, category)
    if (ofCategory !== noRate) return { value: ofCategory, source: "category" }
  }
  return tier?.base ?? version.base
}

const rateIn = (version: ProgramVersion, row: number, category: number): number =>
  version.rates[row * version.categories.length + category] ?? noRate

/** Net amounts that a user has earned so far in a program and month: in all, and in the purchase's category. */
export interface Usage {
  readonly month: bigint
  readonly category: bigint
}

/** What they have counted before the first reward. */
export const nothingUsed: Usage = { month: 0n, category: 0n }

/** Applies the caps to a raw amount: `max(0, min(raw, category cap − used, month cap − used))`. */
export const applyCaps = (
  version: ProgramVersion,
  category: string | undefined,
  raw: bigint,
  used: Usage
): bigint => {
  const categoryCap = category === undefined ? undefined : version.categoryCaps.get(category)
  return positive(least(raw, room(version.monthCap, used.month), categoryCap && room(categoryCap, used.category)))
}

/** Why a purchase earns nothing; for one that {@link applyCaps} leaves nothing of its `evaluation`, if it has one. */
export const unearnedReason = (
  version: ProgramVersion,
  mcc: string,
  evaluation: Evaluation | undefined,
  used: Usage
): UnearnedReason => {
  if (evaluation === undefined) return isExcluded(version, mcc) ? "excludedMcc" : "notEligible"
  const { bonuses, multiplier, rate, raw } = evaluation
  if (raw > 0n) return used.month >= version.monthCap ? "monthCap" : "categoryCap"
  const isZeroRate = rate.value * multiplier === 0 && bonuses.every(({ bonusRate }) => bonusRate === 0)
  return isZeroRate ? "zeroRate" : "roundsToZero"
}

const room = (cap: bigint, used: bigint): bigint => cap - used

const least = (first: bigint, ...others: ReadonlyArray<bigint | undefined>): bigint =>
  others.reduce<bigint>((least, other) => other !== undefined && other < least ? other : least, first)

const positive = (value: bigint): bigint => value > 0n ? value : 0n

/** The open amounts of one version and category, in one program and month. */
export interface OpenEstimate<V extends Effective = Effective> {
  readonly version: V
  /** Undefined for merchants outside every category. */
  readonly category: string | undefined
  /** Σ raw of the open amounts. */
  readonly raw: bigint
}

/**
 * The amount that the open amounts of one user, program and month are expected to earn:
 * `min(month room, Σ over categories of min(category room, Σ raw))`, by the caps of the newest version among them
 * (decisions, section 5.6). `capsOf` is called for that version only.
 */
export const expectedOf = <V extends Effective>(
  estimates: ReadonlyArray<OpenEstimate<V>>,
  capsOf: (newest: V) => Pick<ProgramVersion, "categoryCaps" | "monthCap">,
  used: (category: string | undefined) => bigint,
  monthUsed: bigint
): bigint => {
  const [first, ...rest] = estimates
  if (first === undefined) return 0n
  const newest = rest.reduce((newest, { version }) => isNewer(version, newest) ? version : newest, first.version)
  const { categoryCaps, monthCap } = capsOf(newest)
  const byCategory = new Map<string | undefined, bigint>()
  for (const { category, raw } of estimates) byCategory.set(category, (byCategory.get(category) ?? 0n) + raw)
  let sum = 0n
  for (const [category, raw] of byCategory) {
    const cap = category === undefined ? undefined : categoryCaps.get(category)
    sum += cap === undefined ? raw : positive(least(raw, room(cap, used(category))))
  }
  return positive(least(sum, room(monthCap, monthUsed)))
}
