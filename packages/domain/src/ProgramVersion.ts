import type { Asset } from "./Money.ts"
import { maxRate, type ProgramDefinition } from "./Program.ts"

/** A rate in basis points, and its source, the most specific first. */
export interface Rate {
  readonly value: number
  readonly source: "tierCategory" | "category" | "tierBase" | "base"
}

/**
 * A published version compiled for evaluation (decisions, section 4). It is compact, because a worker caches thousands:
 * every category id is stored once, rates and MCCs are tables of small integers, and the definition is not retained.
 * {@link compiledBytes} is an upper bound of its memory.
 */
export interface ProgramVersion {
  readonly programId: string
  readonly version: number
  readonly asset: Asset
  /** Milliseconds. The version applies to purchases from this time on. */
  readonly effectiveFrom: number
  readonly holdingPeriodDays: number
  readonly monthCap: bigint
  /** Caps by category id; categories without a cap are absent. */
  readonly categoryCaps: ReadonlyMap<string, bigint>
  readonly base: Rate
  /** Category ids. The other fields refer to a category by its index in this list. */
  readonly categories: ReadonlyArray<string>
  /** The MCC of the first entry of `mccs`. */
  readonly firstMcc: number
  /** By MCC: {@link excludedMcc}, 0 for no category, or the category's index + {@link firstCategory}. */
  readonly mccs: Uint8Array | Uint16Array
  /** Rows of one rate per category, {@link noRate} for none. Row 0 has the version's own rates. */
  readonly rates: Int16Array
  readonly tiers: ReadonlyMap<string, CompiledTier>
  readonly campaigns: ReadonlyArray<CompiledCampaign>
  /** Rows of one bit per category, each row in whole bytes. */
  readonly campaignCategories: Uint8Array
  /** Undefined if every country is eligible. */
  readonly countries: ReadonlySet<string> | undefined
  /** Undefined if every segment is eligible. */
  readonly segments: ReadonlySet<string> | undefined
}

interface CompiledTier {
  readonly multiplier: number
  /** Undefined if the tier has none. */
  readonly base: Rate | undefined
  /** The row of `rates`; {@link noRow} if the tier has no category rates. */
  readonly row: number
}

interface CompiledCampaign {
  readonly id: string
  readonly startsAt: number
  readonly endsAt: number
  readonly bonusRate: number
  /** The row of `campaignCategories`; {@link noRow} if the campaign applies to every purchase. */
  readonly row: number
}

/** Entries of {@link ProgramVersion.mccs}. */
export const excludedMcc = 1
export const firstCategory = 2

/** Marks a missing rate in {@link ProgramVersion.rates}; rates are not negative. */
export const noRate = -1

/** Marks a missing row of a table. */
export const noRow = -1

/** Compiles a definition that violates no rule of Program/Problems.ts. Throws a RangeError for a rate out of range. */
export const compile = (programId: string, version: number, definition: ProgramDefinition): ProgramVersion => {
  const categories = definition.categories.map((category) => category.id)
  const indexOf = new Map(categories.map((id, index) => [id, index]))
  const { eligibility = {} } = definition
  return {
    programId,
    version,
    asset: definition.asset,
    effectiveFrom: definition.effectiveFrom,
    holdingPeriodDays: definition.holdingPeriodDays,
    monthCap: definition.caps.perMonth,
    // the string of the category list, so that equal strings of the definition are not retained
    categoryCaps: new Map(definition.caps.categories.map((cap) =>
      [categories[indexOf.get(cap.categoryId) ?? -1] ?? cap.categoryId, cap.perMonth])),
    base: { value: checkedRate(definition.baseRate), source: "base" },
    categories,
    ...compileMccs(definition),
    ...compileRates(definition, indexOf),
    ...compileCampaigns(definition, indexOf),
    countries: setOf(eligibility.countries),
    segments: setOf(eligibility.segments)
  }
}

const setOf = (values: ReadonlyArray<string> = []): ReadonlySet<string> | undefined =>
  values.length === 0 ? undefined : new Set(values)

const compileMccs = ({ categories, exclusions }: ProgramDefinition): Pick<ProgramVersion, "firstMcc" | "mccs"> => {
  let first = Infinity
  let last = -Infinity
  for (const list of [exclusions.mccs, ...categories.map((category) => category.mccs)]) {
    for (const mcc of list) {
      first = Math.min(first, Number(mcc))
      last = Math.max(last, Number(mcc))
    }
  }
  if (last < first) return { firstMcc: 0, mccs: noBytes }
  const size = last - first + 1
  const mccs = categories.length <= 0xff - firstCategory ? new Uint8Array(size) : new Uint16Array(size)
  categories.forEach((category, index) => {
    for (const mcc of category.mccs) mccs[Number(mcc) - first] = index + firstCategory
  })
  for (const mcc of exclusions.mccs) mccs[Number(mcc) - first] = excludedMcc
  return { firstMcc: first, mccs }
}

const noBytes = new Uint8Array(0)

const compileRates = (definition: ProgramDefinition, indexOf: ReadonlyMap<string, number>) => {
  const rows: Array<NonNullable<ProgramDefinition["tiers"][number]["categoryRates"]>> = [definition.categoryRates]
  const tiers = new Map<string, CompiledTier>()
  for (const { baseRate, categoryRates, multiplier, tier } of definition.tiers) {
    const hasRates = categoryRates !== undefined && categoryRates.length > 0
    const row = hasRates ? rows.push(categoryRates) - 1 : noRow
    const base = baseRate === undefined ? undefined : { value: checkedRate(baseRate), source: "tierBase" } as const
    tiers.set(tier, { multiplier, base, row })
  }
  const width = definition.categories.length
  const isEmpty = rows.length === 1 && definition.categoryRates.length === 0
  const rates = isEmpty ? noRates : new Int16Array(rows.length * width).fill(noRate)
  rows.forEach((row, number) => {
    for (const { categoryId, rate } of row) {
      const index = indexOf.get(categoryId)
      if (index !== undefined) rates[number * width + index] = checkedRate(rate)
    }
  })
  return { rates, tiers }
}

const noRates = new Int16Array(0)

/** Checks a rate, because a table of small integers would silently truncate one that is out of range. */
const checkedRate = (rate: number): number => {
  if (rate >= 0 && rate <= maxRate) return rate
  throw new RangeError(`a rate of ${rate} basis points`)
}

const compileCampaigns = (definition: ProgramDefinition, indexOf: ReadonlyMap<string, number>) => {
  const rowBytes = bytesOfRow(definition.categories.length)
  const limited = definition.campaigns.filter((campaign) => campaign.categoryIds !== undefined)
  const campaignCategories = limited.length === 0 ? noBytes : new Uint8Array(limited.length * rowBytes)
  limited.forEach(({ categoryIds = [] }, row) => {
    for (const id of categoryIds) {
      const index = indexOf.get(id)
      if (index === undefined) continue
      const byte = row * rowBytes + (index >> 3)
      campaignCategories[byte] = (campaignCategories[byte] ?? 0) | 1 << (index & 7)
    }
  })
  let rows = 0
  const campaigns = definition.campaigns.map(({ bonusRate, categoryIds, endsAt, id, startsAt }): CompiledCampaign =>
    ({ id, startsAt, endsAt, bonusRate, row: categoryIds === undefined ? noRow : rows++ })
  )
  return { campaigns, campaignCategories }
}

/** Bytes of a row of one bit per category. */
export const bytesOfRow = (categories: number): number => (categories + 7) >> 3

/**
 * An upper bound of the bytes of a compiled version in V8 with 64-bit pointers. Strings that versions could share count
 * in full.
 */
export const compiledBytes = (version: ProgramVersion): number => {
  const { campaignCategories, campaigns, categories, categoryCaps, countries, mccs, rates, segments, tiers } = version
  const texts = [version.programId, ...categories, ...tiers.keys(), ...campaigns.map((campaign) => campaign.id),
    ...countries ?? [], ...segments ?? []]
  return 1_024 + texts.reduce((sum, text) => sum + stringBytes(text), 0) +
    mccs.byteLength + rates.byteLength + campaignCategories.byteLength +
    8 * categories.length + 72 * categoryCaps.size + 104 * tiers.size + 112 * campaigns.length +
    tableBytes(categoryCaps.size) + tableBytes(tiers.size) + tableBytes(countries?.size ?? 0) +
    tableBytes(segments?.size ?? 0)
}

/** One byte per character of Latin-1 text; otherwise two per UTF-16 unit. */
const stringBytes = (text: string): number => 24 + text.length * (/^[\0-\u00ff]*$/.test(text) ? 1 : 2)

/** The bytes of a Map or a Set without its keys and values: a hash table whose capacity is a power of two. */
const tableBytes = (size: number): number => size === 0 ? 0 : 128 + 28 * 2 ** Math.ceil(Math.log2(Math.max(size, 4)))
