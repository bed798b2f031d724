import { Predicate, Schema } from "effect"
import { isCountry } from "./Country.ts"
import { ProgramId, text } from "./Ids.ts"
import { Amount, Asset } from "./Money.ts"
import { Mcc } from "./SpendEvent.ts"
import { Timestamp } from "./Time.ts"

/** Programs per integrator, and versions per program (contract, section 8). */
export const maxPrograms = 50
export const maxVersions = 100

/** How long before it takes effect a version must be published. */
export const minimumLeadMillis = 5 * 60_000

const name = text(1, 128)
const CategoryRate = Schema.Struct({ categoryId: name, rate: Schema.Int })
const Category = Schema.Struct({ id: name, mccs: Schema.Array(Mcc) })
const Tier = Schema.Struct({
  tier: name,
  multiplier: Schema.Int,
  baseRate: Schema.optionalKey(Schema.Int),
  categoryRates: Schema.optionalKey(Schema.Array(CategoryRate))
})
const Campaign = Schema.Struct({
  id: name,
  startsAt: Timestamp,
  endsAt: Timestamp,
  bonusRate: Schema.Int,
  categoryIds: Schema.optionalKey(Schema.Array(name))
})
const CategoryCap = Schema.Struct({ categoryId: name, perMonth: Amount })
const Caps = Schema.Struct({ perMonth: Amount, categories: Schema.Array(CategoryCap) })
const Exclusions = Schema.Struct({ mccs: Schema.Array(Mcc), merchants: Schema.Array(Schema.Json) })
const Eligibility = Schema.Struct({
  countries: Schema.optionalKey(Schema.Array(text(0, 128))),
  segments: Schema.optionalKey(Schema.Array(name))
})

/**
 * A program version as it is published (contract, section 2.6; decisions, section 4). Rates are basis points, a
 * multiplier of 10000 is 1×, caps are smallest units. This is the shape alone: {@link problems} says what else
 * must hold, and {@link unknownKeys} which keys of a body are none of these.
 */
export const ProgramDefinition = Schema.Struct({
  asset: Asset,
  effectiveFrom: Timestamp,
  categories: Schema.Array(Category),
  baseRate: Schema.Int,
  categoryRates: Schema.Array(CategoryRate),
  merchantRates: Schema.Array(Schema.Json),
  tiers: Schema.Array(Tier),
  campaigns: Schema.Array(Campaign),
  caps: Caps,
  exclusions: Exclusions,
  holdingPeriodDays: Schema.Int,
  eligibility: Schema.optionalKey(Eligibility),
  referralBonus: Schema.optionalKey(Schema.Json)
}).annotate({
  identifier: "ProgramDefinition",
  expected: "an object",
  description: "A program version. Rates are basis points (100 is 1%), a multiplier of 10000 is 1×, caps are smallest units."
})
export type ProgramDefinition = typeof ProgramDefinition.Type

/** The number of a version, chosen by the integrator; gaps are allowed. */
export const VersionNumber = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 }, { expected: "an integer from 1 to 2147483647" })
)

/** Response of a publication. */
export const ProgramVersionPublished = Schema.Struct({
  programId: ProgramId,
  version: VersionNumber,
  effectiveFrom: Timestamp,
  publishedAt: Timestamp,
  duplicate: Schema.Boolean
}).annotate({
  identifier: "ProgramVersionPublished",
  expected: "an object",
  description: "The version as it stands; `duplicate` is true when it was already published."
})
export type ProgramVersionPublished = typeof ProgramVersionPublished.Type

/** A version in the list of programs. */
export const ProgramVersionSummary = Schema.Struct({
  version: VersionNumber,
  effectiveFrom: Timestamp,
  publishedAt: Timestamp
}).annotate({
  identifier: "ProgramVersionSummary",
  expected: "an object",
  description: "A version without its definition."
})

/** A program in the list of programs; versions ascending. */
export const ProgramSummary = Schema.Struct({
  programId: ProgramId,
  asset: Asset,
  versions: Schema.Array(ProgramVersionSummary)
}).annotate({
  identifier: "ProgramSummary",
  expected: "an object",
  description: "A program; versions ascending."
})
export type ProgramSummary = typeof ProgramSummary.Type

/** One program with its versions as published. */
export const Program = Schema.Struct({
  programId: ProgramId,
  asset: Asset,
  versions: Schema.Array(Schema.Struct({ ...ProgramVersionSummary.fields, definition: ProgramDefinition }))
}).annotate({
  identifier: "Program",
  expected: "an object",
  description: "A program with its versions as published, ascending."
})
export type Program = typeof Program.Type

/** 422: the version breaks rules; `problems` lists every one as `path: reason`. */
export class ProgramRefused extends Schema.TaggedError<ProgramRefused>()("ProgramRefused", {
  message: Schema.String,
  programId: Schema.String,
  problems: Schema.Array(Schema.String)
}, { httpApiStatus: 422 }) {}

/** 409: other content stands under that number. */
export class ProgramVersionConflict extends Schema.TaggedError<ProgramVersionConflict>()("ProgramVersionConflict", {
  message: Schema.String,
  programId: Schema.String,
  version: Schema.Int
}, { httpApiStatus: 409 }) {}

/** What publication depends on beside the definition itself. */
export interface Publication {
  /** The integrator's clock, in milliseconds. */
  readonly now: number
  /** Programs that the integrator has, this one not counted. */
  readonly otherPrograms: number
  /** The program's versions so far: how many, and their asset. */
  readonly versions: { readonly count: number; readonly asset: Asset } | undefined
}

/** Every broken rule of a definition and its publication at once, as `path: reason` (decisions, section 4). */
export const problems = (definition: ProgramDefinition, publication: Publication): ReadonlyArray<string> => [
  ...definitionProblems(definition),
  ...publicationProblems(definition, publication)
]

const publicationProblems = (definition: ProgramDefinition, publication: Publication): ReadonlyArray<string> => {
  const found: Array<string> = []
  const { now, otherPrograms, versions } = publication
  if (versions !== undefined && versions.asset !== definition.asset) {
    found.push(`asset: must be ${versions.asset}, as in the program's earlier versions`)
  }
  if (definition.effectiveFrom < now + minimumLeadMillis) {
    found.push("effectiveFrom: must be at least 5 minutes after publication")
  }
  if (versions === undefined && otherPrograms >= maxPrograms) {
    found.push(`programId: there are ${maxPrograms} programs already`)
  }
  if (versions !== undefined && versions.count >= maxVersions) {
    found.push(`version: the program has ${maxVersions} versions already`)
  }
  return found
}

/** The rules that a definition keeps or breaks by itself. */
export const definitionProblems = (definition: ProgramDefinition): ReadonlyArray<string> => {
  const found: Array<string> = []
  const between = (path: string, value: number, maximum: number) => {
    if (value < 0 || value > maximum) found.push(`${path}: must be from 0 to ${maximum}`)
  }
  const unique = (path: (index: number) => string, values: ReadonlyArray<string>) => {
    const seen = new Set<string>()
    values.forEach((value, index) => {
      if (seen.has(value)) found.push(`${path(index)}: is there more than once`)
      seen.add(value)
    })
  }
  const categoryIds = new Set(definition.categories.map((category) => category.id))
  const known = (path: string, categoryId: string) => {
    if (!categoryIds.has(categoryId)) found.push(`${path}: names no category of this version`)
  }
  const rates = (path: string, entries: ReadonlyArray<typeof CategoryRate.Type>) => {
    entries.forEach((entry, index) => {
      between(`${path}[${index}].rate`, entry.rate, 10_000)
      known(`${path}[${index}].categoryId`, entry.categoryId)
    })
    unique((index) => `${path}[${index}].categoryId`, entries.map((entry) => entry.categoryId))
  }

  between("baseRate", definition.baseRate, 10_000)
  between("holdingPeriodDays", definition.holdingPeriodDays, 365)
  unique((index) => `categories[${index}].id`, definition.categories.map((category) => category.id))
  const mccOwner = new Map<string, string>()
  definition.categories.forEach((category, index) => {
    category.mccs.forEach((mcc, position) => {
      if (mccOwner.has(mcc)) found.push(`categories[${index}].mccs[${position}]: is in a category already`)
      mccOwner.set(mcc, category.id)
    })
  })
  rates("categoryRates", definition.categoryRates)
  unique((index) => `tiers[${index}].tier`, definition.tiers.map((tier) => tier.tier))
  definition.tiers.forEach((tier, index) => {
    between(`tiers[${index}].multiplier`, tier.multiplier, 100_000)
    if (tier.baseRate !== undefined) between(`tiers[${index}].baseRate`, tier.baseRate, 10_000)
    if (tier.categoryRates !== undefined) rates(`tiers[${index}].categoryRates`, tier.categoryRates)
  })
  unique((index) => `campaigns[${index}].id`, definition.campaigns.map((campaign) => campaign.id))
  definition.campaigns.forEach((campaign, index) => {
    between(`campaigns[${index}].bonusRate`, campaign.bonusRate, 10_000)
    if (campaign.endsAt <= campaign.startsAt) found.push(`campaigns[${index}].endsAt: must be after startsAt`)
    campaign.categoryIds?.forEach((id, position) => known(`campaigns[${index}].categoryIds[${position}]`, id))
  })
  unique(
    (index) => `caps.categories[${index}].categoryId`,
    definition.caps.categories.map((cap) => cap.categoryId)
  )
  definition.caps.categories.forEach((cap, index) => known(`caps.categories[${index}].categoryId`, cap.categoryId))
  definition.eligibility?.countries?.forEach((country, index) => {
    if (!isCountry(country)) found.push(`eligibility.countries[${index}]: is no ISO 3166-1 alpha-2 country code`)
  })
  if (definition.merchantRates.length > 0) found.push("merchantRates: must be empty for now")
  if (definition.exclusions.merchants.length > 0) found.push("exclusions.merchants: must be empty for now")
  if (!isEmptyJson(definition.referralBonus)) found.push("referralBonus: must be empty for now")
  return found
}

const isEmptyJson = (value: Schema.Json | undefined): boolean =>
  value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0)

/**
 * The keys of a body that are not part of a definition, as problems: a version never changes, so a misspelt key must
 * not be dropped in silence.
 */
export const unknownKeys = (body: unknown): ReadonlyArray<string> => keysBeyond("", body, shape)

/** Which keys may stand where: a list's shape is its items'. */
interface Shape {
  readonly [key: string]: Shape | undefined
}

const shapeOf = (fields: object, nested: Shape = {}): Shape => ({
  ...Object.fromEntries(Object.keys(fields).map((key) => [key, undefined])),
  ...nested
})

const categoryRates = shapeOf(CategoryRate.fields)
const shape = shapeOf(ProgramDefinition.fields, {
  categories: shapeOf(Category.fields),
  categoryRates,
  tiers: shapeOf(Tier.fields, { categoryRates }),
  campaigns: shapeOf(Campaign.fields),
  caps: shapeOf(Caps.fields, { categories: shapeOf(CategoryCap.fields) }),
  exclusions: shapeOf(Exclusions.fields),
  eligibility: shapeOf(Eligibility.fields)
})

const keysBeyond = (path: string, value: unknown, shape: Shape): ReadonlyArray<string> => {
  if (Array.isArray(value)) return value.flatMap((item, index) => keysBeyond(`${path}[${index}]`, item, shape))
  if (!Predicate.isObject(value)) return []
  return Object.entries(value).flatMap(([key, inner]) => {
    const at = path === "" ? key : `${path}.${key}`
    if (!Object.hasOwn(shape, key)) return [`${at}: is not known`]
    const nested = shape[key]
    return nested === undefined ? [] : keysBeyond(at, inner, nested)
  })
}
