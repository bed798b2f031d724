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
const maxPrograms = 50
const maxVersions = 100

/** The most entries of each list of a definition (decisions, section 4). */
const maxCategories = 200
const maxCategoryRates = 200
const maxCategoryCaps = 200
const maxCampaigns = 200
const maxCategoriesOfCampaign = 200
const maxTiers = 50
/** MCCs in all categories together, and in the exclusions. */
const maxMccs = 10_000
const maxCountries = 300
const maxSegments = 200

const maxMultiplier = 100_000
const maxHoldingPeriodDays = 365

/** The rules of a definition, as its description says them. */
export const rulesText = `Rates are from 0 to ${maxRate}, multipliers from 0 to ${maxMultiplier}, \
\`holdingPeriodDays\` from 0 to ${maxHoldingPeriodDays}. \`merchantRates\`, \`exclusions.merchants\` and \
\`referralBonus\` are empty for now. At most ${maxCategories} categories, ${maxCategoryRates} category rates, \
${maxCategoryCaps} category caps, ${maxCampaigns} campaigns and ${maxSegments} segments; ${maxTiers} tiers with \
${maxCategoryRates} category rates each; ${maxCategoriesOfCampaign} categories of a campaign; ${maxMccs} MCCs in all \
categories, and in the exclusions; ${maxCountries} countries. MCCs, countries and segments are unique in their list.`

/** What the rules of publication depend on besides the definition. */
export interface Publication {
  /** The integrator's clock, in milliseconds. */
  readonly now: number
  /** The number of the integrator's other programs. */
  readonly otherPrograms: number
  /** The number of the program's versions so far, and their asset. */
  readonly versions: { readonly count: number; readonly asset: Asset } | undefined
}

/** Of problems of one kind, such as categories that do not exist, so many are named, and whether there are more. */
const maxOfOneKind = 500

type Problems = Generator<string, void>

/** The first problems of one kind, and whether there are more: those are not looked for. */
function* firstOf(kind: Problems): Problems {
  let count = 0
  for (const problem of kind) {
    if (count++ === maxOfOneKind) {
      yield `definition: has more problems like the ${maxOfOneKind} above`
      return
    }
    yield problem
  }
}

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
  const ids = definition.categories.map(({ id }) => id)
  const categoryIds = new Set(ids)
  const capped = definition.caps.categories.map((cap) => cap.categoryId)
  yield* firstOf(limitProblems(definition))
  yield* between("baseRate", definition.baseRate, maxRate)
  yield* between("holdingPeriodDays", definition.holdingPeriodDays, maxHoldingPeriodDays)
  yield* firstOf(unique((index) => `categories[${index}].id`, ids))
  yield* firstOf(mccProblems(definition))
  yield* rateProblems([{ path: "categoryRates", entries: definition.categoryRates }], categoryIds)
  yield* tierProblems(definition, categoryIds)
  yield* campaignProblems(definition, categoryIds)
  yield* firstOf(unique((index) => `caps.categories[${index}].categoryId`, capped))
  yield* firstOf(unknown((index) => `caps.categories[${index}].categoryId`, capped, categoryIds))
  yield* firstOf(unique((index) => `exclusions.mccs[${index}]`, definition.exclusions.mccs))
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

/** Categories that the version does not have. */
function* unknown(
  path: (index: number) => string,
  ids: ReadonlyArray<string>,
  categoryIds: ReadonlySet<string>
): Problems {
  for (const [index, id] of ids.entries()) {
    if (!categoryIds.has(id)) yield `${path(index)}: names no category of this version`
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
function* mccProblems({ categories }: ProgramDefinition): Problems {
  const assigned = new Set<string>()
  for (const [index, category] of categories.entries()) {
    for (const [position, mcc] of category.mccs.entries()) {
      if (assigned.has(mcc)) yield `categories[${index}].mccs[${position}]: is in a category already`
      assigned.add(mcc)
    }
  }
}

/** Rates of categories, and where they are. */
interface RateList {
  readonly path: string
  readonly entries: ReadonlyArray<typeof CategoryRate.Type>
}

function* rateProblems(lists: ReadonlyArray<RateList>, categoryIds: ReadonlySet<string>): Problems {
  const ofEach = function*(kind: (path: string, entries: RateList["entries"]) => Problems): Problems {
    for (const { entries, path } of lists) yield* kind(path, entries)
  }
  const ids = (entries: RateList["entries"]) => entries.map((entry) => entry.categoryId)
  yield* firstOf(ofEach((path, entries) =>
    rangeProblems((index) => `${path}[${index}].rate`, entries.map((entry) => entry.rate), maxRate)))
  yield* firstOf(ofEach((path, entries) =>
    unknown((index) => `${path}[${index}].categoryId`, ids(entries), categoryIds)))
  yield* firstOf(ofEach((path, entries) => unique((index) => `${path}[${index}].categoryId`, ids(entries))))
}

function* rangeProblems(path: (index: number) => string, values: ReadonlyArray<number>, maximum: number): Problems {
  for (const [index, value] of values.entries()) yield* between(path(index), value, maximum)
}

function* tierProblems({ tiers }: ProgramDefinition, categoryIds: ReadonlySet<string>): Problems {
  yield* firstOf(unique((index) => `tiers[${index}].tier`, tiers.map((tier) => tier.tier)))
  const multipliers = tiers.map((tier) => tier.multiplier)
  yield* firstOf(rangeProblems((index) => `tiers[${index}].multiplier`, multipliers, maxMultiplier))
  const rates = tiers.map((tier) => tier.baseRate ?? 0)
  yield* firstOf(rangeProblems((index) => `tiers[${index}].baseRate`, rates, maxRate))
  const lists = tiers.map(({ categoryRates = [] }, index) =>
    ({ path: `tiers[${index}].categoryRates`, entries: categoryRates }))
  yield* rateProblems(lists, categoryIds)
}

function* campaignProblems({ campaigns }: ProgramDefinition, categoryIds: ReadonlySet<string>): Problems {
  yield* firstOf(unique((index) => `campaigns[${index}].id`, campaigns.map((campaign) => campaign.id)))
  const rates = campaigns.map((campaign) => campaign.bonusRate)
  yield* firstOf(rangeProblems((index) => `campaigns[${index}].bonusRate`, rates, maxRate))
  yield* firstOf(periodProblems(campaigns))
  yield* firstOf(campaignCategoryProblems(campaigns, categoryIds))
}

type Campaigns = ReadonlyArray<typeof Campaign.Type>

function* periodProblems(campaigns: Campaigns): Problems {
  for (const [index, { endsAt, startsAt }] of campaigns.entries()) {
    if (endsAt <= startsAt) yield `campaigns[${index}].endsAt: must be after startsAt`
  }
}

function* campaignCategoryProblems(campaigns: Campaigns, categoryIds: ReadonlySet<string>): Problems {
  for (const [index, campaign] of campaigns.entries()) {
    const path = (position: number) => `campaigns[${index}].categoryIds[${position}]`
    yield* unknown(path, campaign.categoryIds ?? [], categoryIds)
  }
}

function* eligibilityProblems(eligibility: typeof Eligibility.Type): Problems {
  const { countries = [], segments = [] } = eligibility
  yield* firstOf(countryProblems(countries))
  yield* firstOf(unique((index) => `eligibility.countries[${index}]`, countries))
  yield* firstOf(unique((index) => `eligibility.segments[${index}]`, segments))
}

function* countryProblems(countries: ReadonlyArray<string>): Problems {
  for (const [index, country] of countries.entries()) {
    if (!isCountry(country)) yield `eligibility.countries[${index}]: is no ISO 3166-1 alpha-2 country code`
  }
}

const isEmptyJson = (value: Schema.Json | undefined): boolean =>
  value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0)

/**
 * The unknown keys of a body, as problems. A published version cannot be corrected, so a misspelt key must not be
 * ignored.
 */
export const unknownKeys = (body: unknown): ReadonlyArray<string> => [...firstOf(keysBeyond("", body, shape))]

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

function* keysBeyond(path: string, value: unknown, shape: Shape): Problems {
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* keysBeyond(`${path}[${index}]`, item, shape)
    return
  }
  if (!Predicate.isObject(value)) return
  for (const [key, inner] of Object.entries(value)) {
    const at = path === "" ? key : `${path}.${key}`
    const nested = shape[key]
    if (!Object.hasOwn(shape, key)) yield `${at}: is not known`
    else if (nested !== undefined) yield* keysBeyond(at, inner, nested)
  }
}

/** The violated rules of a simulation's candidate: those of publication, except its lead time and its limits. */
export const candidateProblems = (definition: ProgramDefinition, asset: Asset): Problems =>
  problems(definition, { now: -Infinity, otherPrograms: 0, versions: { count: 0, asset } })
