import type { ProgramDefinition } from "./Program.ts"

/**
 * A program version on the wire that pays 1 % in USDC, claimable at once, and has no other rules. Tests and tools
 * override what they need and add `effectiveFrom`.
 */
export const plainProgram = {
  asset: "USDC",
  categories: [],
  baseRate: 100,
  categoryRates: [],
  merchantRates: [],
  tiers: [],
  campaigns: [],
  caps: { perMonth: "1000000000", categories: [] },
  exclusions: { mccs: [], merchants: [] },
  holdingPeriodDays: 0
} as const satisfies Omit<typeof ProgramDefinition.Encoded, "effectiveFrom">
