const names: Record<string, string | undefined> = {
  programId: "Program id",
  version: "Version",
  asset: "Asset",
  effectiveFrom: "Effective from",
  holdingPeriodDays: "Holding period",
  baseRate: "Base rate",
  perMonth: "Cap per month",
  excludedMccs: "Excluded MCCs",
  countries: "Countries",
  segments: "Segments",
  id: "id",
  mccs: "MCCs",
  rate: "rate",
  cap: "cap",
  tier: "name",
  multiplier: "multiplier",
  startsAt: "start",
  endsAt: "end",
  bonusRate: "bonus",
  categoryIds: "categories"
}
const rows: Record<string, string | undefined> = { categories: "Category", tiers: "Tier", campaigns: "Campaign" }

/** A field as a person finds it: `Tier 2, multiplier`. */
export const fieldName = (field: string): string => {
  const [first = "", place, name = "", category] = field.split(".")
  if (place === undefined) return names[first] ?? first
  const row = `${rows[first] ?? first} ${Number(place) + 1}`
  return category === undefined
    ? `${row}, ${(first === "tiers" && name === "baseRate" ? "base rate" : names[name]) ?? name}`
    : `${row}, rate of category ${Number(category) + 1}`
}
