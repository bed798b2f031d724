import { Predicate, type Schema } from "effect"
import { isCountry } from "../Country.ts"
import type { Asset } from "../Money.ts"
import {
  Campaign,
  Caps,
  Category,
  CategoryCap,
  CategoryRate,
  Eligibility,
  Exclusions,
  maxRate,
  minimumLeadMillis,
  ProgramDefinition,
  Tier
} from "../Program.ts"

/** Programs per integrator, and versions per program (contract, section 8). */
export const maxPrograms = 50
export const maxVersions = 100

/** The most entries of each list of a definition (decisions, section 4). */
export const maxCategories = 200
export const maxCategoryRates = 200
export const maxCategoryCaps = 200
export const maxCampaigns = 200
export const maxCategoriesOfCampaign = 200
export const maxTiers = 50
/** MCCs in all categories together, and in the exclusions. */
export const maxMccs = 10_000
export const maxCountries = 300
export const maxSegments = 200

/** What the rules of publication depend on besides the definition. */
export interface Publication {
  /** The integrator's clock, in milliseconds. */
  readonly now: number
  /** The number of the integrator's other programs. */
  readonly otherPrograms: number
  /** The number of the program's versions so far, and their asset. */
  readonly versions: { readonly count: number; readonly asset: Asset } | undefined
}

/** All violated rules of a definition and its publication, as `path: reason` (decisions, section 4). */
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

/** The violated rules of the definition alone. Takes time proportional to the definition's size. */
export const definitionProblems = (definition: ProgramDefinition): ReadonlyArray<string> => {
  const found: Array<string> = []
  limitProblems(definition, found)
  const categoryIds = new Set(definition.categories.map((category) => category.id))
  const known = (path: string, categoryId: string) => {
    if (!categoryIds.has(categoryId)) found.push(`${path}: names no category of this version`)
  }
  const rates = (path: string, entries: ReadonlyArray<typeof CategoryRate.Type>) => {
    entries.forEach((entry, index) => {
      between(found, `${path}[${index}].rate`, entry.rate, maxRate)
      known(`${path}[${index}].categoryId`, entry.categoryId)
    })
    unique(found, (index) => `${path}[${index}].categoryId`, entries.map((entry) => entry.categoryId))
  }

  between(found, "baseRate", definition.baseRate, maxRate)
  between(found, "holdingPeriodDays", definition.holdingPeriodDays, 365)
  categoryProblems(definition, found)
  rates("categoryRates", definition.categoryRates)
  unique(found, (index) => `tiers[${index}].tier`, definition.tiers.map((tier) => tier.tier))
  definition.tiers.forEach((tier, index) => {
    between(found, `tiers[${index}].multiplier`, tier.multiplier, 100_000)
    if (tier.baseRate !== undefined) between(found, `tiers[${index}].baseRate`, tier.baseRate, maxRate)
    if (tier.categoryRates !== undefined) rates(`tiers[${index}].categoryRates`, tier.categoryRates)
  })
  unique(found, (index) => `campaigns[${index}].id`, definition.campaigns.map((campaign) => campaign.id))
  definition.campaigns.forEach((campaign, index) => {
    between(found, `campaigns[${index}].bonusRate`, campaign.bonusRate, maxRate)
    if (campaign.endsAt <= campaign.startsAt) found.push(`campaigns[${index}].endsAt: must be after startsAt`)
    campaign.categoryIds?.forEach((id, position) => known(`campaigns[${index}].categoryIds[${position}]`, id))
  })
  const caps = definition.caps.categories
  unique(found, (index) => `caps.categories[${index}].categoryId`, caps.map((cap) => cap.categoryId))
  caps.forEach((cap, index) => known(`caps.categories[${index}].categoryId`, cap.categoryId))
  unique(found, (index) => `exclusions.mccs[${index}]`, definition.exclusions.mccs)
  eligibilityProblems(definition.eligibility ?? {}, found)
  if (definition.merchantRates.length > 0) found.push("merchantRates: must be empty for now")
  if (definition.exclusions.merchants.length > 0) found.push("exclusions.merchants: must be empty for now")
  if (!isEmptyJson(definition.referralBonus)) found.push("referralBonus: must be empty for now")
  return found
}

const between = (found: Array<string>, path: string, value: number, maximum: number): void => {
  if (value < 0 || value > maximum) found.push(`${path}: must be from 0 to ${maximum}`)
}

const unique = (found: Array<string>, path: (index: number) => string, values: ReadonlyArray<string>): void => {
  const known = new Set<string>()
  values.forEach((value, index) => {
    if (known.has(value)) found.push(`${path(index)}: is there more than once`)
    known.add(value)
  })
}

/** The lists that are too long. */
const limitProblems = (definition: ProgramDefinition, found: Array<string>): void => {
  const limit = (path: string, list: ReadonlyArray<unknown> | undefined, maximum: number, of = "entries") => {
    if (list !== undefined && list.length > maximum) found.push(`${path}: must have at most ${maximum} ${of}`)
  }
  limit("categories", definition.categories, maxCategories)
  limit("categories", definition.categories.flatMap((category) => category.mccs), maxMccs, "MCCs in all")
  limit("categoryRates", definition.categoryRates, maxCategoryRates)
  limit("tiers", definition.tiers, maxTiers)
  definition.tiers.forEach((tier, index) =>
    limit(`tiers[${index}].categoryRates`, tier.categoryRates, maxCategoryRates)
  )
  limit("campaigns", definition.campaigns, maxCampaigns)
  definition.campaigns.forEach((campaign, index) =>
    limit(`campaigns[${index}].categoryIds`, campaign.categoryIds, maxCategoriesOfCampaign)
  )
  limit("caps.categories", definition.caps.categories, maxCategoryCaps)
  limit("exclusions.mccs", definition.exclusions.mccs, maxMccs)
  limit("eligibility.countries", definition.eligibility?.countries, maxCountries)
  limit("eligibility.segments", definition.eligibility?.segments, maxSegments)
}

/** MCCs that are in several categories, or repeated in one. */
const categoryProblems = ({ categories }: ProgramDefinition, found: Array<string>): void => {
  unique(found, (index) => `categories[${index}].id`, categories.map((category) => category.id))
  const assigned = new Set<string>()
  categories.forEach((category, index) => {
    category.mccs.forEach((mcc, position) => {
      if (assigned.has(mcc)) found.push(`categories[${index}].mccs[${position}]: is in a category already`)
      assigned.add(mcc)
    })
  })
}

const eligibilityProblems = (eligibility: typeof Eligibility.Type, found: Array<string>): void => {
  const { countries = [], segments = [] } = eligibility
  countries.forEach((country, index) => {
    if (!isCountry(country)) found.push(`eligibility.countries[${index}]: is no ISO 3166-1 alpha-2 country code`)
  })
  unique(found, (index) => `eligibility.countries[${index}]`, countries)
  unique(found, (index) => `eligibility.segments[${index}]`, segments)
}

const isEmptyJson = (value: Schema.Json | undefined): boolean =>
  value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0)

/**
 * The unknown keys of a body, as problems. A published version cannot be corrected, so a misspelt key must not be
 * ignored.
 */
export const unknownKeys = (body: unknown): ReadonlyArray<string> => keysBeyond("", body, shape)

/** The known keys of an object; the shape of a list is that of its items. */
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

/** The violated rules of a simulation's candidate: those of publication, except its lead time and its limits. */
export const candidateProblems = (definition: ProgramDefinition, asset: Asset): ReadonlyArray<string> =>
  problems(definition, { now: -Infinity, otherPrograms: 0, versions: { count: 0, asset } })
