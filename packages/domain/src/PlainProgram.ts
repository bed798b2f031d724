import type { ProgramDefinition } from "./Program.ts"

/**
 * On the wire, a program version that pays 1 % in USDC, claimable at once, and knows nothing else. Tests and tools
 * change it to the program they want, and say from when it is in force.
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
