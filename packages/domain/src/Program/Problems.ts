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

/** A refused version has at most this many problems, and one more that says so where there are others. */
export const maxProblems = 1_000

/** The first {@link maxProblems} of some problems, found one by one; where there are more the last one says so. */
export const firstProblems = (...found: ReadonlyArray<Iterable<string>>): ReadonlyArray<string> => {
  const first: Array<string> = []
  for (const problems of found) {
    for (const problem of problems) {
      if (first.length === maxProblems) return [...first, `definition: has more problems than these ${maxProblems}`]
      first.push(problem)
    }
  }
  return first
}

type Problems = Generator<string, void>

/** All violated rules of a definition and its publication, as `path: reason` (decisions, section 4). */
export function* problems(definition: ProgramDefinition, publication: Publication): Problems {
  yield* definitionProblems(definition)
  const { now, otherPrograms, versions } = publication
  if (versions !== undefined && versions.asset !== definition.asset) {
    yield `asset: must be ${versions.asset}, as in the program's earlier versions`
  }
  if (definition.effectiveFrom < now + minimumLeadMillis) {
    yield "effectiveFrom: must be at least 5 minutes after publication"
  }
  if (versions === undefined && otherPrograms >= maxPrograms) {
    yield `programId: there are ${maxPrograms} programs already`
  }
  if (versions !== undefined && versions.count >= maxVersions) {
    yield `version: the program has ${maxVersions} versions already`
  }
}

/** The violated rules of the definition alone. All of them take time proportional to the definition's size. */
export function* definitionProblems(definition: ProgramDefinition): Problems {
  yield* limitProblems(definition)
  yield* between("baseRate", definition.baseRate, maxRate)
  yield* between("holdingPeriodDays", definition.holdingPeriodDays, 365)
  yield* categoryProblems(definition)
  yield* rateProblems(definition)
  yield* campaignProblems(definition)
  const known = knownIn(definition)
  const caps = definition.caps.categories
  yield* unique((index) => `caps.categories[${index}].categoryId`, caps.map((cap) => cap.categoryId))
  for (const [index, cap] of caps.entries()) yield* known(`caps.categories[${index}].categoryId`, cap.categoryId)
  yield* unique((index) => `exclusions.mccs[${index}]`, definition.exclusions.mccs)
  yield* eligibilityProblems(definition.eligibility ?? {})
  if (definition.merchantRates.length > 0) yield "merchantRates: must be empty for now"
  if (definition.exclusions.merchants.length > 0) yield "exclusions.merchants: must be empty for now"
  if (!isEmptyJson(definition.referralBonus)) yield "referralBonus: must be empty for now"
}

function* between(path: string, value: number, maximum: number): Problems {
  if (value < 0 || value > maximum) yield `${path}: must be from 0 to ${maximum}`
}

function* unique(path: (index: number) => string, values: ReadonlyArray<string>): Problems {
  const known = new Set<string>()
  for (const [index, value] of values.entries()) {
    if (known.has(value)) yield `${path(index)}: is there more than once`
    known.add(value)
  }
}

const knownIn = ({ categories }: ProgramDefinition) => {
  const categoryIds = new Set(categories.map((category) => category.id))
  return function*(path: string, categoryId: string): Problems {
    if (!categoryIds.has(categoryId)) yield `${path}: names no category of this version`
  }
}

/** The lists that are too long. */
function* limitProblems(definition: ProgramDefinition): Problems {
  const limit = function*(
    path: string,
    list: ReadonlyArray<unknown> | undefined,
    maximum: number,
    of = "entries"
  ): Problems {
    if (list !== undefined && list.length > maximum) yield `${path}: must have at most ${maximum} ${of}`
  }
  yield* limit("categories", definition.categories, maxCategories)
  yield* limit("categories", definition.categories.flatMap((category) => category.mccs), maxMccs, "MCCs in all")
  yield* limit("categoryRates", definition.categoryRates, maxCategoryRates)
  yield* limit("tiers", definition.tiers, maxTiers)
  for (const [index, tier] of definition.tiers.entries()) {
    yield* limit(`tiers[${index}].categoryRates`, tier.categoryRates, maxCategoryRates)
  }
  yield* limit("campaigns", definition.campaigns, maxCampaigns)
  for (const [index, campaign] of definition.campaigns.entries()) {
    yield* limit(`campaigns[${index}].categoryIds`, campaign.categoryIds, maxCategoriesOfCampaign)
  }
  yield* limit("caps.categories", definition.caps.categories, maxCategoryCaps)
  yield* limit("exclusions.mccs", definition.exclusions.mccs, maxMccs)
  yield* limit("eligibility.countries", definition.eligibility?.countries, maxCountries)
  yield* limit("eligibility.segments", definition.eligibility?.segments, maxSegments)
}

/** MCCs that are in several categories, or repeated in one. */
function* categoryProblems({ categories }: ProgramDefinition): Problems {
  yield* unique((index) => `categories[${index}].id`, categories.map((category) => category.id))
  const assigned = new Set<string>()
  for (const [index, category] of categories.entries()) {
    for (const [position, mcc] of category.mccs.entries()) {
      if (assigned.has(mcc)) yield `categories[${index}].mccs[${position}]: is in a category already`
      assigned.add(mcc)
    }
  }
}

/** Problems of rates, those of tiers too. */
function* rateProblems(definition: ProgramDefinition): Problems {
  const known = knownIn(definition)
  const rates = function*(path: string, entries: ReadonlyArray<typeof CategoryRate.Type>): Problems {
    for (const [index, entry] of entries.entries()) {
      yield* between(`${path}[${index}].rate`, entry.rate, maxRate)
      yield* known(`${path}[${index}].categoryId`, entry.categoryId)
    }
    yield* unique((index) => `${path}[${index}].categoryId`, entries.map((entry) => entry.categoryId))
  }
  yield* rates("categoryRates", definition.categoryRates)
  yield* unique((index) => `tiers[${index}].tier`, definition.tiers.map((tier) => tier.tier))
  for (const [index, tier] of definition.tiers.entries()) {
    yield* between(`tiers[${index}].multiplier`, tier.multiplier, 100_000)
    if (tier.baseRate !== undefined) yield* between(`tiers[${index}].baseRate`, tier.baseRate, maxRate)
    if (tier.categoryRates !== undefined) yield* rates(`tiers[${index}].categoryRates`, tier.categoryRates)
  }
}

function* campaignProblems(definition: ProgramDefinition): Problems {
  const known = knownIn(definition)
  yield* unique((index) => `campaigns[${index}].id`, definition.campaigns.map((campaign) => campaign.id))
  for (const [index, campaign] of definition.campaigns.entries()) {
    yield* between(`campaigns[${index}].bonusRate`, campaign.bonusRate, maxRate)
    if (campaign.endsAt <= campaign.startsAt) yield `campaigns[${index}].endsAt: must be after startsAt`
    for (const [position, id] of (campaign.categoryIds ?? []).entries()) {
      yield* known(`campaigns[${index}].categoryIds[${position}]`, id)
    }
  }
}

function* eligibilityProblems(eligibility: typeof Eligibility.Type): Problems {
  const { countries = [], segments = [] } = eligibility
  for (const [index, country] of countries.entries()) {
    if (!isCountry(country)) yield `eligibility.countries[${index}]: is no ISO 3166-1 alpha-2 country code`
  }
  yield* unique((index) => `eligibility.countries[${index}]`, countries)
  yield* unique((index) => `eligibility.segments[${index}]`, segments)
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
export const candidateProblems = (definition: ProgramDefinition, asset: Asset): Problems =>
  problems(definition, { now: -Infinity, otherPrograms: 0, versions: { count: 0, asset } })
