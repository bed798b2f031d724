import type { Asset } from "@card-rewards/domain/Money"
import type { ProgramDefinition } from "@card-rewards/domain/Program"
import { printDecimal } from "../../format/Money.ts"
import { toInput } from "../../format/Time.ts"
import { decimalsOf } from "../../format/Money.ts"

/** A category of a draft: what the definition keeps in three lists stands in one row. */
export interface CategoryDraft {
  readonly id: string
  readonly mccs: string
  readonly rate: string
  readonly cap: string
}

/** A tier of a draft; `rates` are by the categories' places. */
export interface TierDraft {
  readonly tier: string
  readonly multiplier: string
  readonly baseRate: string
  readonly rates: ReadonlyArray<string>
}

export interface CampaignDraft {
  readonly id: string
  readonly startsAt: string
  readonly endsAt: string
  readonly bonusRate: string
  readonly categoryIds: string
}

/** A version as it is typed: percentages, factors and whole assets, as text. */
export interface Draft {
  readonly programId: string
  readonly version: string
  readonly asset: Asset
  readonly effectiveFrom: string
  readonly holdingPeriodDays: string
  readonly baseRate: string
  readonly perMonth: string
  readonly categories: ReadonlyArray<CategoryDraft>
  readonly tiers: ReadonlyArray<TierDraft>
  readonly campaigns: ReadonlyArray<CampaignDraft>
  readonly excludedMccs: string
  readonly countries: string
  readonly segments: string
}

/** What a first version begins with. */
export const emptyDraft = (effectiveFrom: number): Draft => ({
  programId: "",
  version: "1",
  asset: "USDC",
  effectiveFrom: toInput(effectiveFrom),
  holdingPeriodDays: "14",
  baseRate: "1",
  perMonth: "50",
  categories: [],
  tiers: [],
  campaigns: [],
  excludedMccs: "",
  countries: "",
  segments: ""
})

/** A draft of the version after a published one. */
export const draftOf = (
  programId: string,
  version: number,
  definition: ProgramDefinition,
  effectiveFrom: number
): Draft => {
  const { asset, campaigns, caps, categories, categoryRates, eligibility, exclusions, tiers } = definition
  const money = (amount: bigint | undefined) => (amount === undefined ? "" : printDecimal(amount, decimalsOf(asset)))
  const percent = (rate: number | undefined) => (rate === undefined ? "" : printDecimal(BigInt(rate), 2))
  const rateOf = (rates: ReadonlyArray<{ categoryId: string; rate: number }> | undefined, id: string) =>
    percent(rates?.find((entry) => entry.categoryId === id)?.rate)
  return {
    programId,
    version: String(version),
    asset,
    effectiveFrom: toInput(effectiveFrom),
    holdingPeriodDays: String(definition.holdingPeriodDays),
    baseRate: percent(definition.baseRate),
    perMonth: money(caps.perMonth),
    categories: categories.map(({ id, mccs }) => ({
      id,
      mccs: mccs.join(" "),
      rate: rateOf(categoryRates, id),
      cap: money(caps.categories.find((cap) => cap.categoryId === id)?.perMonth)
    })),
    tiers: tiers.map((tier) => ({
      tier: tier.tier,
      multiplier: printDecimal(BigInt(tier.multiplier), 4),
      baseRate: percent(tier.baseRate),
      rates: categories.map(({ id }) => rateOf(tier.categoryRates, id))
    })),
    campaigns: campaigns.map((campaign) => ({
      id: campaign.id,
      startsAt: toInput(campaign.startsAt),
      endsAt: toInput(campaign.endsAt),
      bonusRate: percent(campaign.bonusRate),
      categoryIds: campaign.categoryIds?.join(" ") ?? ""
    })),
    excludedMccs: exclusions.mccs.join(" "),
    countries: eligibility?.countries?.join(" ") ?? "",
    segments: eligibility?.segments?.join(", ") ?? ""
  }
}
